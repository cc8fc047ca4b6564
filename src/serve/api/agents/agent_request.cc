// Used by serve/api/agents and serve/api/openai.
#include "serve/api/agents/agent_request.h"

#include <algorithm>
#include <boost/json/string.hpp>
#include <charconv>
#include <optional>

namespace sluice {
namespace {

namespace json = boost::json;

void append_to(json::object& message, std::string_view key, std::string_view text) {
  json::value& value = message[key];
  if (!value.is_string()) value = json::string();
  value.get_string().append(text);
}

// Replaces "messages[3]" or "tools[3]" at the beginning of a text by the client's name for it.
void replace_index(std::string& text, std::string_view name, const std::vector<std::string>& paths) {
  if (!text.starts_with(name) || text.size() <= name.size() || text[name.size()] != '[') return;
  std::size_t index = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data() + name.size() + 1, last, index);
  if (error != std::errc() || end == last || *end != ']' || index >= paths.size()) return;
  text.replace(0, static_cast<std::size_t>(end + 1 - text.data()), paths[index]);
}

bool begins_with_field(std::string_view text, std::string_view field) {
  if (!text.starts_with(field)) return false;
  const std::string_view rest = text.substr(field.size());
  return rest.empty() || rest[0] == '.' || rest[0] == '[' || rest[0] == ':' || rest[0] == '/' || rest[0] == ' ';
}

}  // namespace

json::object& ChatConversation::assistant(Stage stage, const std::string& path) {
  if (stage_ == Stage::kNone || stage < stage_) add("assistant", nullptr, path);
  stage_ = stage;
  return messages_.back().get_object();
}

void ChatConversation::add(std::string_view role, json::value content, std::string path) {
  messages_.push_back(json::object{{"role", role}, {"content", std::move(content)}});
  paths_.push_back(std::move(path));
  stage_ = Stage::kNone;
}

void ChatConversation::add_reasoning(std::string_view text, const std::string& path) {
  append_to(assistant(Stage::kReasoning, path), "reasoning_content", text);
}

void ChatConversation::add_text(std::string_view text, const std::string& path) {
  append_to(assistant(Stage::kText, path), "content", text);
}

void ChatConversation::add_call(std::string_view id, std::string_view name, json::value arguments,
                                const std::string& path) {
  json::value& calls = assistant(Stage::kCalls, path)["tool_calls"];
  if (!calls.is_array()) calls = json::array();
  calls.get_array().push_back(
      json::object{{"id", id},
                   {"type", "function"},
                   {"function", json::object{{"name", name}, {"arguments", std::move(arguments)}}}});
}

void ChatConversation::add_result(std::string_view call_id, json::value content, std::string path) {
  add("tool", std::move(content), std::move(path));
  messages_.back().get_object()["tool_call_id"] = call_id;
}

ApiError by_client_names(ApiError error, const AgentRequest& request) {
  for (std::string* text : {&error.param, &error.message}) {
    replace_index(*text, "messages", request.message_paths);
    if (text->starts_with("tools[")) {
      replace_index(*text, "tools", request.tool_paths);
      constexpr std::string_view kFunction = "].function.";
      if (const auto at = text->find(kFunction); at != std::string::npos) text->replace(at, kFunction.size(), "].");
    }
    for (const auto& [chat, own] : request.names) {
      if (!begins_with_field(*text, chat)) continue;
      text->replace(0, chat.size(), own);
      break;
    }
  }
  return error;
}

ApiResult<ChatCompletionRequest> as_chat_request(const AgentRequest& request, const RequestRules& rules) {
  auto parsed = parse_chat_completion_request(request.chat, rules);
  if (auto* error = std::get_if<ApiError>(&parsed)) return by_client_names(std::move(*error), request);
  auto& chat = std::get<ChatCompletionRequest>(parsed);
  chat.options.ignored.insert(chat.options.ignored.end(), request.ignored.begin(), request.ignored.end());
  chat.options.shortens_to_context = request.shortens_to_context;
  chat.tool_choice.strict_by_default = request.strict_by_default;
  return parsed;
}

void copy_shared_fields(const json::object& body, FieldPlaces place, json::object& chat) {
  for (const auto& [key, value] : body) {
    const Field* field = find_field(place, key);
    if (field != nullptr && (field->places & kInChat) != 0) chat[key] = value;
  }
}

}  // namespace sluice
