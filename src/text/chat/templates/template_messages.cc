#include <boost/json.hpp>
#include <string>
#include <utility>

#include "files/json.h"
#include "text/chat/templates/template_chat.h"

namespace sluice {

namespace {

namespace json = boost::json;

json::value arguments_of(const ChatToolCall& call, bool as_text) {
  if (as_text) return json::value(call.arguments);
  if (call.arguments.find_first_not_of(" \t\r\n") == std::string::npos) return json::object();
  auto parsed = parse_json(call.arguments, "arguments");
  // A model's arguments need not be JSON; the conversation goes on with them as they are.
  return parsed.ok() && parsed->is_object() ? std::move(parsed).value() : json::value(call.arguments);
}

json::array tool_calls_of(const std::vector<ChatToolCall>& calls, bool as_text) {
  json::array list;
  for (const ChatToolCall& call : calls) {
    json::object function;
    function["name"] = call.name;
    function["arguments"] = arguments_of(call, as_text);
    json::object entry;
    if (!call.id.empty()) entry["id"] = call.id;
    entry["type"] = "function";
    entry["function"] = std::move(function);
    list.push_back(std::move(entry));
  }
  return list;
}

void add_content(const ChatMessage& message, const TemplateForms& forms, json::object& out) {
  const std::vector<ChatContentPart>& parts = message.content;
  if (parts.empty()) {
    if (forms.no_content == TemplateForms::NoContent::kNull) out["content"] = nullptr;
    if (forms.no_content == TemplateForms::NoContent::kEmpty) out["content"] = "";
  } else if (parts.size() == 1 && parts[0].type == "text") {
    out["content"] = parts[0].text;
  } else if (forms.parts_as_list) {
    json::array list;
    for (const ChatContentPart& part : parts) {
      json::object entry;
      entry["type"] = part.type;
      if (part.type == "text") entry["text"] = part.text;
      list.push_back(std::move(entry));
    }
    out["content"] = std::move(list);
  } else {
    out["content"] = join_content(parts, "\n");
  }
}

json::object template_message(const ChatMessage& message, const TemplateForms& forms) {
  json::object out;
  // Some templates read the reasoning by its older name.
  if (!message.reasoning_content.empty()) out["thinking"] = message.reasoning_content;
  out["role"] = std::string(to_string(message.role));
  add_content(message, forms, out);
  if (!message.name.empty()) out["name"] = message.name;
  if (!message.reasoning_content.empty()) out["reasoning_content"] = message.reasoning_content;
  if (!message.tool_calls.empty()) out["tool_calls"] = tool_calls_of(message.tool_calls, forms.arguments_as_text);
  if (!message.tool_call_id.empty()) out["tool_call_id"] = message.tool_call_id;
  return out;
}

}  // namespace

json::array template_messages(const std::vector<ChatMessage>& messages, const TemplateForms& forms) {
  json::array list;
  for (const ChatMessage& message : messages) list.push_back(template_message(message, forms));
  return list;
}

json::object template_variables(const ChatRequest& request, const TemplateForms& forms) {
  json::object variables;
  variables["messages"] = template_messages(request.messages, forms);
  variables["tools"] = nullptr;
  if (!request.tools.empty()) {
    json::array tools;
    for (const json::value& function : request.tools) {
      json::object tool;
      tool["type"] = "function";
      tool["function"] = function;
      tools.push_back(std::move(tool));
    }
    variables["tools"] = std::move(tools);
  }
  variables["documents"] = nullptr;
  variables["add_generation_prompt"] = request.add_generation_prompt;
  if (request.reasoning_effort) variables["reasoning_effort"] = *request.reasoning_effort;
  if (request.response_format) variables["response_format"] = *request.response_format;
  for (const auto& [name, value] : request.template_variables) variables[name] = value;
  if (request.thinking) variables["thinking"] = variables["enable_thinking"] = *request.thinking;
  return variables;
}

}  // namespace sluice
