// Used by template_forms.cc, template_messages.cc and text/chat/chat.cc.
#include "text/chat/templates/template_chat.h"

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

// Refuses the parts of a ChatMessage that templates do not know.
Status check_messages(const std::vector<ChatMessage>& messages) {
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (!messages[i].task.empty()) return refuse(i, "task");
    if (messages[i].wo_eos) return refuse(i, "wo_eos");
    if (!messages[i].tools.empty()) return refuse(i, "tools");
    if (messages[i].response_format) return refuse(i, "response_format");
  }
  return {};
}

// The server's own words, wherever a template writes them: '<|' + message.role + '|>'.
constexpr std::array<std::string_view, 6> kRoles = {"system",    "developer", "user",
                                                    "assistant", "tool",      "latest_reminder"};

std::vector<std::string_view> used_markers(const ChatTemplates& templates) {
  std::vector<std::string_view> found;
  for (const std::string_view marker : kRoleMarkers) {
    const bool is_used = std::ranges::any_of(templates.templates, [&](const NamedChatTemplate& named) {
      return named.text.source().find(marker) != std::string::npos;
    });
    if (is_used) found.push_back(marker);
  }
  return found;
}

// White space aside.
bool ends_in_open_reasoning(const MarkedText& prompt) {
  static constexpr std::string_view kOpen = "<think>";
  const std::size_t end = prompt.bytes.find_last_not_of(" \t\r\n") + 1;
  return end >= kOpen.size() && prompt.bytes.compare(end - kOpen.size(), kOpen.size(), kOpen) == 0 &&
         prompt.is_own(end - kOpen.size(), end);
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
    : templates_(std::move(templates)),
      parsers_(std::move(parsers)),
      forms_(find_template_forms(templates_)),
      markers_(used_markers(templates_)) {}

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

Result<ChatPrompt> TemplateChat::render(const ChatRequest& request) const {
  if (request.messages.empty()) return invalid_argument("messages: expected at least one message, found none");
  SLUICE_RETURN_IF_ERROR(check_messages(request.messages));
  const jinja::Template& text = *templates_.find(!request.tools.empty());
  if (request.response_format && !request.format_is_enforced && !text.mentions("response_format")) {
    return invalid_argument("response_format: this model's chat template has no place for it; remove it");
  }
  SLUICE_ASSIGN_OR_RETURN(const ChatMessage* continued, continued_message(request));
  ChatPrompt prompt;
  if (continued != nullptr) {
    SLUICE_ASSIGN_OR_RETURN(prompt.text, render_continued(request, text));
    prompt.reasoning_open = ends_in_reasoning(*continued);
  } else {
    SLUICE_ASSIGN_OR_RETURN(prompt.text, render_in_some_form(request, text));
    prompt.reasoning_open = ends_in_open_reasoning(prompt.text);
  }
  SLUICE_RETURN_IF_ERROR(check_tools(request, text, prompt.text.bytes));
  prompt.messages = find_messages(prompt.text);
  return prompt;
}

// A template that writes the same without the tools leaves them out.
Status TemplateChat::check_tools(const ChatRequest& request, const jinja::Template& text,
                                 const std::string& prompt) const {
  if (request.tools.empty()) return {};
  ChatRequest without_tools = request;
  without_tools.tools.clear();
  const Result<MarkedText> other = continued_message(request).value() != nullptr
                                       ? render_continued(without_tools, text)
                                       : render_in_some_form(without_tools, text);
  if (!other.ok() || other->bytes != prompt) return {};
  return invalid_argument(
      "tools: this model's chat template leaves them out, so the model would not know of them; remove them, or start "
      "with --chat-template FILE and a template that writes them");
}

// A word that no text holds is put after the text that goes on, and the prompt ends before it.
Result<MarkedText> TemplateChat::render_continued(const ChatRequest& request, const jinja::Template& text) const {
  static constexpr std::string_view kEnd = "\xF4\x8F\xBF\xBFsluice\xF4\x8F\xBF\xBF";  // U+10FFFF is no character
  ChatRequest marked = request;
  marked.add_generation_prompt = false;
  ChatMessage& last = marked.messages.back();
  const bool is_reasoning = ends_in_reasoning(last);
  if (last.content.empty()) last.content.push_back({});
  if (is_reasoning) {
    last.reasoning_content += kEnd;
    if (!marked.thinking) marked.thinking = true;
  } else {
    last.content.back().text += kEnd;
  }
  SLUICE_ASSIGN_OR_RETURN(const MarkedText whole, render_in_some_form(marked, text));
  const std::size_t end = whole.bytes.rfind(kEnd);
  if (end != std::string::npos) return MarkedText().part(whole.bytes, whole.clients, 0, end);
  return invalid_argument(std::string("messages: this model's chat template leaves out the ") +
                          (is_reasoning ? "reasoning" : "content") + " that the answer is to go on with");
}

Result<MarkedText> TemplateChat::render_in_some_form(const ChatRequest& request, const jinja::Template& text) const {
  Status first;
  for (const TemplateForms& forms : forms_to_try(request, forms_)) {
    Result<MarkedText> prompt =
        text.render_request(templates_.special_tokens, template_variables(request, forms), kRoles);
    if (prompt.ok()) return prompt;
    if (first.ok()) first = prompt.status();
  }
  return first;
}

std::vector<std::size_t> TemplateChat::find_messages(const MarkedText& prompt) const {
  std::vector<std::size_t> places;
  for (const std::string_view marker : markers_) {
    for (std::size_t at = prompt.bytes.find(marker); at != std::string::npos;
         at = prompt.bytes.find(marker, at + marker.size())) {
      if (at > 0 && prompt.is_own(at, at + marker.size())) places.push_back(at);  // nothing comes before the first
    }
  }
  std::ranges::sort(places);
  return places;
}

std::unique_ptr<ChatOutputParser> TemplateChat::make_parser(bool reasoning_open, bool has_tools) const {
  return make_chat_parser(parsers_, reasoning_open, has_tools);
}

std::vector<std::string_view> TemplateChat::role_markers() const {
  return markers_;
}

}  // namespace sluice
