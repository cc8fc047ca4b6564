// Used by template_chat.cc, template_messages.cc and text/chat/chat.cc.
#include <boost/json.hpp>
#include <optional>
#include <string>

#include "text/chat/templates/template_chat.h"

namespace sluice {

namespace {

// Words that no template contains.
constexpr std::string_view kKey = "sluice_trial_key";
constexpr std::string_view kPart = "sluice trial part";

std::optional<std::string> rendered(const ChatTemplates& templates, const ChatRequest& request,
                                    const TemplateForms& forms) {
  const jinja::Template* text = templates.find(!request.tools.empty());
  if (text == nullptr) return std::nullopt;
  auto prompt = text->render_request(templates.special_tokens, template_variables(request, forms), {});
  return prompt.ok() ? std::optional(std::move(prompt->bytes)) : std::nullopt;
}

ChatMessage message_of(ChatRole role, std::string text) {
  ChatMessage message;
  message.role = role;
  message.content.push_back({.type = "text", .text = std::move(text)});
  return message;
}

// A conversation with a call, whose arguments are {"sluice_trial_key": "value"}.
ChatRequest conversation_with_call() {
  ChatRequest request;
  request.messages.push_back(message_of(ChatRole::kUser, "question"));
  ChatMessage answer = message_of(ChatRole::kAssistant, "");
  std::string arguments("{\"");
  arguments.append(kKey).append("\": \"value\"}");
  answer.tool_calls.push_back({.id = "call00001", .name = "trial", .arguments = std::move(arguments)});
  request.messages.push_back(std::move(answer));
  ChatMessage result = message_of(ChatRole::kTool, "result");
  result.tool_call_id = "call00001";
  result.name = "trial";
  request.messages.push_back(std::move(result));
  boost::json::object parameters;
  parameters["type"] = "object";
  parameters["properties"] = boost::json::object();
  boost::json::object function;
  function["name"] = "trial";
  function["description"] = "trial";
  function["parameters"] = std::move(parameters);
  request.tools.emplace_back(std::move(function));
  return request;
}

// Writes the arguments as the model is to write them: as JSON, or each on its own; not as Python prints a dict, and not
// as JSON within JSON.
bool writes_arguments(const ChatTemplates& templates, bool as_text) {
  const auto prompt = rendered(templates, conversation_with_call(), {.arguments_as_text = as_text});
  if (!prompt) return false;
  const std::size_t at = prompt->find(kKey);
  if (at == std::string::npos || at == 0) return false;
  const char before = (*prompt)[at - 1];
  const bool is_escaped = before == '"' && at > 1 && (*prompt)[at - 2] == '\\';
  return before != '\'' && !is_escaped;
}

bool takes_parts(const ChatTemplates& templates) {
  ChatRequest request;
  ChatMessage question = message_of(ChatRole::kUser, std::string(kPart));
  question.content.push_back({.type = "text", .text = "another"});
  request.messages.push_back(std::move(question));
  const auto prompt = rendered(templates, request, {.parts_as_list = true});
  if (!prompt) return false;
  const std::size_t at = prompt->find(kPart);
  // Python prints a list of dicts with quotes around the texts.
  return at != std::string::npos && at > 0 && (*prompt)[at - 1] != '\'' && (*prompt)[at - 1] != '"';
}

}  // namespace

TemplateForms find_template_forms(const ChatTemplates& templates) {
  TemplateForms forms;
  forms.arguments_as_text = !writes_arguments(templates, false) && writes_arguments(templates, true);
  forms.parts_as_list = takes_parts(templates);
  return forms;
}

}  // namespace sluice
