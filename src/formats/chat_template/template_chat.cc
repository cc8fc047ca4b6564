#include "formats/chat_template/template_chat.h"

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <utility>

namespace sluice {

namespace {

// Tokens that open a message, in the templates that there are.
constexpr std::array<std::string_view, 10> kRoleMarkers = {
    "<|im_start|>",  "<|start_header_id|>", "<｜User｜>", "<｜Assistant｜>", "<|user|>",
    "<|assistant|>", "<|system|>",          "<|start|>",  "<start_of_turn>", "[INST]"};

Status refuse(std::size_t index, std::string_view key) {
  return invalid_argument("messages[" + std::to_string(index) + "]: key '" + std::string(key) +
                          "': this model's chat template has no place for it; remove it");
}

// What ChatMessage can say beyond what templates know.
Status check_messages(const std::vector<ChatMessage>& messages) {
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (!messages[i].task.empty()) return refuse(i, "task");
    if (messages[i].wo_eos) return refuse(i, "wo_eos");
    if (!messages[i].tools.empty()) return refuse(i, "tools");
    if (messages[i].response_format) return refuse(i, "response_format");
  }
  return {};
}

std::vector<TemplateForms> forms_to_try(const ChatRequest& request, const TemplateForms& first) {
  using NoContent = TemplateForms::NoContent;
  const auto& messages = request.messages;
  const bool has_calls = std::ranges::any_of(messages, [](const ChatMessage& m) { return !m.tool_calls.empty(); });
  const bool lacks_content = std::ranges::any_of(messages, [](const ChatMessage& m) { return m.content.empty(); });
  std::vector<TemplateForms> all;
  for (const bool as_text : {first.arguments_as_text, !first.arguments_as_text}) {
    if (as_text != first.arguments_as_text && !has_calls) continue;
    for (const NoContent no_content : {NoContent::kAbsent, NoContent::kNull, NoContent::kEmpty}) {
      if (no_content != NoContent::kAbsent && !lacks_content) continue;
      TemplateForms forms = first;
      forms.arguments_as_text = as_text;
      forms.no_content = no_content;
      all.push_back(forms);
    }
  }
  return all;
}

}  // namespace

TemplateChat::TemplateChat(ChatTemplates templates, ChatParserNames parsers)
    : templates_(std::move(templates)), parsers_(std::move(parsers)), forms_(probe_template_forms(templates_)) {}

Result<std::unique_ptr<ChatEncoding>> TemplateChat::make(ChatTemplates templates, const ChatParserNames& parsers) {
  if (templates.find(/*has_tools=*/false) == nullptr) {
    return not_found(templates.templates.empty()
                         ? "no chat template: expected chat_template.jinja or the key 'chat_template' in "
                           "tokenizer_config.json; give one with --chat-template FILE, or complete raw text"
                         : "no chat template named 'default' among those of the model; give one with "
                           "--chat-template FILE, or complete raw text");
  }
  std::string text;
  for (const NamedChatTemplate& named : templates.templates) text.append(named.text.source()).append("\n");
  SLUICE_ASSIGN_OR_RETURN(ChatParserNames names, choose_chat_parsers(text, parsers));
  return std::unique_ptr<ChatEncoding>(new TemplateChat(std::move(templates), std::move(names)));
}

Result<std::string> TemplateChat::render(const ChatRequest& request) const {
  if (request.messages.empty()) return invalid_argument("messages: expected at least one message, found none");
  SLUICE_RETURN_IF_ERROR(check_messages(request.messages));
  const jinja::Template& text = *templates_.find(!request.tools.empty());
  if (request.response_format && !text.mentions("response_format")) {
    return invalid_argument("response_format: this model's chat template has no place for it; remove it");
  }
  SLUICE_ASSIGN_OR_RETURN(std::string prompt, render_in_some_form(request, text));
  if (request.tools.empty()) return prompt;
  ChatRequest without_tools = request;
  without_tools.tools.clear();
  const Result<std::string> other = render_in_some_form(without_tools, text);
  if (!other.ok() || *other != prompt) return prompt;
  return invalid_argument(
      "tools: this model's chat template leaves them out, so the model would not know of them; remove them, or start "
      "with --chat-template FILE and a template that writes them");
}

Result<std::string> TemplateChat::render_in_some_form(const ChatRequest& request, const jinja::Template& text) const {
  Status first;
  for (const TemplateForms& forms : forms_to_try(request, forms_)) {
    Result<std::string> prompt = text.render(template_variables(request, templates_.special_tokens, forms));
    if (prompt.ok()) return prompt;
    if (first.ok()) first = prompt.status();
  }
  return first;
}

std::unique_ptr<ChatOutputParser> TemplateChat::make_parser(std::string_view prompt, bool has_tools) const {
  return make_chat_parser(parsers_, prompt, has_tools);
}

std::vector<std::string_view> TemplateChat::role_markers() const {
  std::vector<std::string_view> found;
  for (const std::string_view marker : kRoleMarkers) {
    const bool is_used = std::ranges::any_of(templates_.templates, [&](const NamedChatTemplate& named) {
      return named.text.source().find(marker) != std::string::npos;
    });
    if (is_used) found.push_back(marker);
  }
  return found;
}

}  // namespace sluice
