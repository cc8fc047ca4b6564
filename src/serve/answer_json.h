// Pieces of JSON that the answers of both generating calls share. All append to `out`.
#pragma once

#include <string>
#include <string_view>

#include "serve/openai_response.h"

namespace sluice {

// {"id":...,"object":OBJECT,"created":...,"model":...,"system_fingerprint":...  without the closing brace
void append_head(std::string& out, const AnswerHead& head, std::string_view object);
// "usage":{...}
void append_usage(std::string& out, const Usage& usage);
// ,"usage":... of an event that is not the last, or nothing: null if the last one will have it, as in OpenAI's API.
void append_usage_so_far(std::string& out, const Usage& usage, const AnswerForm& form);
// A token's bytes as a JSON string; bytes that are not UTF-8 become U+FFFD.
void append_token_text(std::string& out, std::string_view bytes);
// A log-probability; JSON has no infinities, so -inf is written as -9999, as OpenAI does.
void append_logprob(std::string& out, float logprob);

}  // namespace sluice
