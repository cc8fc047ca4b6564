// The answers of /v1/responses and /v1/messages, whole and streamed.
// Used by agent_endpoints.cc, messages_answer.cc, responses_answer.cc and serve/http/http_answer.cc.
#pragma once

#include <boost/json/object.hpp>
#include <memory>
#include <string>
#include <string_view>

#include "serve/api/agents/responses_tools.h"
#include "serve/api/openai/openai_response.h"

namespace sluice {

// `echo`: what the answer says of its request, in the place of what it says by itself. `tools`: those that the model
// calls by other names. `seals_reasoning`: reasoning has "encrypted_content", to be sent back.
std::unique_ptr<AnswerWriter> make_responses_writer(AnswerForm form, boost::json::object echo, ClientTools tools,
                                                    bool seals_reasoning, bool stream);
// `context_tokens`: what prompt and answer have room for.
std::unique_ptr<AnswerWriter> make_messages_writer(AnswerForm form, int context_tokens, bool stream);

// {"type": "error", "error": {"type", "message"}}, as clients of /v1/messages read it.
std::string messages_error_json(int status, std::string_view message);

std::string quoted_json(std::string_view text);  // as a JSON string
// event: TYPE, data: DATA
void append_named_event(std::string& out, std::string_view type, std::string_view data);

}  // namespace sluice
