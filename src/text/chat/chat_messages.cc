#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <span>
#include <string>
#include <utility>

#include "base/utf8.h"
#include "files/json.h"
#include "files/json_fields.h"
#include "text/chat/chat.h"

namespace sluice {

namespace {

namespace json = boost::json;

constexpr std::array kRoles = {ChatRole::kSystem,    ChatRole::kDeveloper, ChatRole::kUser,
                               ChatRole::kAssistant, ChatRole::kTool,      ChatRole::kLatestReminder};

// The keys of the second group mean nothing in a prompt: clients send them back with an assistant's message, they are
// training marks, or they ask for caching, which is done in any case. Keys of the third group have an effect that is
// missing here.
constexpr std::string_view kMessageKeys[] = {"role", "content", "name", "reasoning_content", "reasoning", "tool_calls",
                                             "tool_call_id", "task", "wo_eos", "prefix", "tools", "response_format",
                                             //
                                             "refusal", "index", "mask", "annotations", "id", "cache_control"};
constexpr std::string_view kMissingKeys[] = {"audio", "function_call"};
constexpr std::string_view kPartKeys[] = {"type", "text", "cache_control", "annotations"};

Status unexpected(const std::string& what, std::string_view expected, const json::value* found) {
  return invalid_argument(what + ": expected " + std::string(expected) + ", found " + describe_json(found));
}

// True if the value is one that clients send for an unset key.
bool says_nothing(const json::value& value) {
  return value.is_null() || (value.is_array() && value.get_array().empty()) ||
         (value.is_object() && value.get_object().empty());
}

// Names of keys come from outside and may be long.
std::string shown_key(std::string_view key) {
  return std::string(key.substr(0, valid_utf8_prefix(key.substr(0, 100))));
}

// Unknown keys go to `unknown`, or are refused.
Status check_keys(const json::object& object, const std::string& what, std::span<const std::string_view> known,
                  std::vector<std::string>* unknown) {
  for (const auto& [key, value] : object) {
    if (says_nothing(value) || std::ranges::find(known, std::string_view(key)) != known.end()) continue;
    if (std::ranges::find(kMissingKeys, std::string_view(key)) != std::end(kMissingKeys)) {
      return invalid_argument(what + ": key '" + std::string(key) + "': not supported; remove it");
    }
    if (unknown == nullptr) return invalid_argument(what + ": unknown key '" + shown_key(key) + "'; remove it");
    std::string path = what + ": " + shown_key(key);
    for (auto at = path.find(": "); at < what.size() + 2; at = path.find(": ", at)) path.replace(at, 2, ".");
    unknown->push_back(std::move(path));
  }
  return {};
}

Result<ChatRole> parse_role(const JsonFields& fields, const std::string& what) {
  const json::value* value = fields.find("role");
  std::string names;
  for (ChatRole role : kRoles) {
    if (value && value->is_string() && value->get_string() == to_string(role)) return role;
    names.append(names.empty() ? "" : ", ").append(to_string(role));
  }
  return unexpected(what + ": key 'role'", "one of " + names, value);
}

Result<ChatContentPart> parse_part(const json::value& value, ChatRole role, const std::string& what,
                                   std::vector<std::string>* unknown) {
  JsonFields fields(value, what);
  ChatContentPart part;
  fields.require("type", part.type);
  if (fields.status().ok() && part.type == "text") fields.require("text", part.text);
  SLUICE_RETURN_IF_ERROR(fields.status());
  if (part.type == "text") SLUICE_RETURN_IF_ERROR(check_keys(value.get_object(), what, kPartKeys, unknown));
  if (part.type != "text" && role != ChatRole::kTool) {
    return invalid_argument(what + ": expected a part of type \"text\", found \"" + part.type +
                            "\"; this model reads text only");
  }
  return part;
}

Status parse_content(const json::object& object, const std::string& what, ChatMessage& message,
                     std::vector<std::string>* unknown) {
  const json::value* content = object.if_contains("content");
  if (message.role == ChatRole::kAssistant) {
    const bool says_something_else = !message.tool_calls.empty() || !message.reasoning_content.empty();
    if (content ? content->is_null() : says_something_else) return {};
  }
  if (content && content->is_string()) {
    message.content.push_back({.type = "text", .text = std::string(content->get_string())});
    return {};
  }
  if (!content || !content->is_array()) {
    return unexpected(what + ": key 'content'", "a string or an array of parts", content);
  }
  for (const json::value& value : content->get_array()) {
    const std::string part_name = what + ": content[" + std::to_string(message.content.size()) + "]";
    SLUICE_ASSIGN_OR_RETURN(ChatContentPart part, parse_part(value, message.role, part_name, unknown));
    message.content.push_back(std::move(part));
  }
  return {};
}

// Text that is no JSON, and JSON that is no object, pass as they are: a model wrote them, and the conversation must be
// able to go on. Models write null for functions without parameters: that, and nothing, is an empty object.
std::string parse_arguments(const json::value* value) {
  if (value == nullptr || value->is_null()) return "{}";
  if (!value->is_string()) return dump_json_python(*value);
  std::string text(value->get_string());
  const auto parsed = parse_json(text, "arguments");
  return parsed.ok() && parsed->is_null() ? "{}" : text;
}

Result<ChatToolCall> parse_tool_call(const json::value& value, const std::string& what) {
  JsonFields fields(value, what);
  ChatToolCall call;
  std::string type = "function";
  fields.read("id", call.id);
  fields.read("type", type);
  if (type != "function") fields.fail("type", "\"function\"");
  JsonFields function = fields.child("function");
  function.require("name", call.name);
  SLUICE_RETURN_IF_ERROR(fields.status());
  SLUICE_RETURN_IF_ERROR(function.status());
  if (call.name.empty()) return invalid_argument(what + ": function: key 'name': expected a name, found \"\"");
  call.arguments = parse_arguments(function.find("arguments"));
  return call;
}

Status parse_tool_calls(const json::value& value, const std::string& what, ChatMessage& message) {
  if (!value.is_array()) return unexpected(what + ": key 'tool_calls'", "an array", &value);
  if (!value.get_array().empty() && message.role != ChatRole::kAssistant) {
    return unexpected(what + ": key 'tool_calls'", "it in assistant messages only", &value);
  }
  for (const json::value& item : value.get_array()) {
    const std::string call_name = what + ": tool_calls[" + std::to_string(message.tool_calls.size()) + "]";
    SLUICE_ASSIGN_OR_RETURN(ChatToolCall call, parse_tool_call(item, call_name));
    message.tool_calls.push_back(std::move(call));
  }
  return {};
}

// Tools and response_format of a single message, an extension of DeepSeek-V4's.
Status parse_attachments(const JsonFields& fields, const std::string& what, ChatMessage& message) {
  const json::value* tools = fields.find("tools");
  const json::value* response_format = fields.find("response_format");
  const bool may_have_them = message.role == ChatRole::kSystem || message.role == ChatRole::kDeveloper;
  if ((tools || response_format) && !may_have_them) {
    return unexpected(what + (tools ? ": key 'tools'" : ": key 'response_format'"),
                      "it in system and developer messages only", tools ? tools : response_format);
  }
  if (tools) {
    SLUICE_ASSIGN_OR_RETURN(message.tools, parse_chat_tools(*tools, what + ": tools"));
  }
  if (response_format) {
    if (!response_format->is_object()) {
      return unexpected(what + ": key 'response_format'", "an object", response_format);
    }
    message.response_format = *response_format;
  }
  return {};
}

Result<ChatMessage> parse_message(const json::value& value, const std::string& what,
                                  std::vector<std::string>* unknown) {
  JsonFields fields(value, what);
  SLUICE_RETURN_IF_ERROR(fields.status());
  SLUICE_RETURN_IF_ERROR(check_keys(value.get_object(), what, kMessageKeys, unknown));
  ChatMessage message;
  SLUICE_ASSIGN_OR_RETURN(message.role, parse_role(fields, what));
  fields.read("name", message.name);
  fields.read("tool_call_id", message.tool_call_id);
  fields.read("task", message.task);
  fields.read("wo_eos", message.wo_eos);
  fields.read("prefix", message.prefix);
  fields.read(fields.has("reasoning_content") ? "reasoning_content" : "reasoning", message.reasoning_content);
  SLUICE_RETURN_IF_ERROR(fields.status());
  if (const json::value* calls = fields.find("tool_calls")) {
    SLUICE_RETURN_IF_ERROR(parse_tool_calls(*calls, what, message));
  }
  SLUICE_RETURN_IF_ERROR(parse_attachments(fields, what, message));
  SLUICE_RETURN_IF_ERROR(parse_content(value.get_object(), what, message, unknown));
  return message;
}

}  // namespace

Result<std::vector<ChatMessage>> parse_chat_messages(const json::value& messages, std::vector<std::string>* unknown) {
  if (!messages.is_array() || messages.get_array().empty()) {
    return unexpected("messages", "an array of at least one message", &messages);
  }
  std::vector<ChatMessage> parsed;
  for (const json::value& value : messages.get_array()) {
    SLUICE_ASSIGN_OR_RETURN(ChatMessage message,
                            parse_message(value, "messages[" + std::to_string(parsed.size()) + "]", unknown));
    parsed.push_back(std::move(message));
  }
  return parsed;
}

Result<std::vector<json::value>> parse_chat_tools(const json::value& tools, std::string_view what) {
  const std::string array_name(what);
  if (!tools.is_array()) return unexpected(array_name, "an array of tools", &tools);
  std::vector<json::value> functions;
  for (const json::value& value : tools.get_array()) {
    JsonFields fields(value, array_name + "[" + std::to_string(functions.size()) + "]");
    std::string type;
    std::string name;
    fields.require("type", type);
    if (fields.status().ok() && type != "function") fields.fail("type", "\"function\"");
    JsonFields function = fields.child("function");
    function.require("name", name);
    if (function.status().ok() && name.empty()) function.fail("name", "a name");
    SLUICE_RETURN_IF_ERROR(fields.status());
    SLUICE_RETURN_IF_ERROR(function.status());
    functions.push_back(*fields.find("function"));
  }
  return functions;
}

}  // namespace sluice
