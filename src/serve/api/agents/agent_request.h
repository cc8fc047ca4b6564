// The requests of agents' APIs, /v1/responses and /v1/messages, as chat requests: one path, whatever a client speaks.
//
// Their bodies are read by the table of fields (field_table.h) and written as the body of a chat request, which then is
// parsed as any other. So what chat learns (tools, formats, sampling) these have, too. Errors name the fields of the
// body that the client sent. Thread safety: plain values, pure functions.
// Used by serve/api/agents and serve/api/openai.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/api/agents/responses_tools.h"
#include "serve/api/openai/openai_request.h"
#include "serve/api/request_fields.h"

namespace sluice {

// A conversation that is written as chat messages. Consecutive items of the assistant become one message, as long as
// they come in the order in which a model writes: reasoning, text, calls.
class ChatConversation {
 public:
  // `path`: where in the client's body the message stands, for errors.
  void add(std::string_view role, boost::json::value content, std::string path);
  void add_reasoning(std::string_view text, const std::string& path);
  void add_text(std::string_view text, const std::string& path);
  void add_call(std::string_view id, std::string_view name, boost::json::value arguments, const std::string& path);
  void add_result(std::string_view call_id, boost::json::value content, std::string path);
  void mark_last(std::string_view key) { messages_.back().as_object()[key] = true; }

  bool empty() const { return messages_.empty(); }
  boost::json::array take() { return std::move(messages_); }
  const std::vector<std::string>& paths() const { return paths_; }

 private:
  enum class Stage { kNone, kReasoning, kText, kCalls };
  // The assistant's message that goes on, or a new one.
  boost::json::object& assistant(Stage stage, const std::string& path);

  boost::json::array messages_;
  std::vector<std::string> paths_;
  Stage stage_ = Stage::kNone;
};

// The chat request that is made of a client's body, and facts about the body.
struct AgentRequest {
  boost::json::object chat;                                          // the body of a chat request
  std::vector<std::string> message_paths, tool_paths;                // where each of chat's came from
  std::vector<std::pair<std::string_view, std::string_view>> names;  // fields of chat, and what the client calls them
  std::vector<std::string> ignored;
  ClientTools client_tools;          // /v1/responses: those that the model knows by other names
  boost::json::object echo;          // /v1/responses: what the answer says of its request
  bool seals_reasoning = false;      // /v1/responses: the answer's reasoning comes with a seal
  bool strict_by_default = false;    // functions that do not say `strict` are, where they can be enforced
  bool shortens_to_context = false;  // a limit that the context has no room for is what it has room for
};

ApiResult<AgentRequest> read_responses_request(std::string_view body, const RequestRules& rules);
// `place`: kInMessages or kInCount.
ApiResult<AgentRequest> read_messages_request(std::string_view body, FieldPlaces place, const RequestRules& rules);

// The chat request; its errors by the client's names.
ApiResult<ChatCompletionRequest> as_chat_request(const AgentRequest& request, const RequestRules& rules);
ApiError by_client_names(ApiError error, const AgentRequest& request);

// Pieces of reading that both share.

// Copies the fields that have the same name and meaning in chat.
void copy_shared_fields(const boost::json::object& body, FieldPlaces place, boost::json::object& chat);
// Calls `take(fields, path)` for each object of an array; another value in it is an error.
template <class Take>
void for_each_object(RequestFields& fields, std::string_view key, const boost::json::value& array, const Take& take) {
  if (!array.is_array()) return fields.fail(key, "an array of objects");
  for (std::size_t i = 0; i < array.get_array().size(); ++i) {
    const boost::json::value& item = array.get_array()[i];
    const std::string name = std::string(key) + "[" + std::to_string(i) + "]";
    if (!item.is_object()) return fields.refuse(name, fields.path() + name + ": expected an object", "invalid_value");
    RequestFields inner(fields, name, item.get_object());
    take(inner, fields.path() + name);
    inner.finish();
    if (fields.error()) return;
  }
}

}  // namespace sluice
