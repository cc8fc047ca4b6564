// TemplateChat: the chat encoding of a model that brings a Jinja template.
//
// The template gets what `transformers` gives it: messages, tools, add_generation_prompt, the special tokens of
// tokenizer_config.json, and the request's template variables. Templates want a request in different forms: the
// arguments of tool calls as an object or as text, a content of several parts as a list or as text, a missing content
// left out, null or empty. The form is found by trying: once on small conversations when the template is loaded, and
// again whenever a conversation cannot be written in the form first chosen.
//
// The template's text decides how an answer is taken apart, unless options name the parsers (chat_parsers.h).
//
// Special tokens are recognised in the template's own text, not in what it inserts from the request (jinja/marks.h).
//
// Errors of render: what the template raises, with its line; tools that the template leaves out; what only other
// encodings can write (task, a message's own tools). Thread safety: const methods may be called from any thread.
// Used by template_forms.cc, template_messages.cc and text/chat/chat.cc.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/status.h"
#include "text/chat/chat.h"
#include "text/chat/parsers/chat_parsers.h"
#include "text/chat/templates/chat_templates.h"

namespace sluice {

// A request as the variables of a chat template, in the forms that `transformers` passes them.
// Thread safety: pure functions.

// The forms in which templates want parts of a request.
struct TemplateForms {
  enum class NoContent : std::uint8_t { kAbsent, kNull, kEmpty };  // for a message without content
  bool arguments_as_text = false;  // for a tool call: the JSON text instead of the object
  bool parts_as_list = false;      // a content of several parts: the list instead of one text
  NoContent no_content = NoContent::kAbsent;

  bool operator==(const TemplateForms&) const = default;
};

boost::json::array template_messages(const std::vector<ChatMessage>& messages, const TemplateForms& forms);

// All variables of a request: messages, tools, add_generation_prompt, and what it sets by name. `thinking` is also
// `enable_thinking`, and the reverse.
boost::json::object template_variables(const ChatRequest& request, const TemplateForms& forms);

class TemplateChat final : public ChatEncoding {
 public:
  // kNotFound if there is no template to take.
  static Result<std::unique_ptr<ChatEncoding>> make(ChatTemplates templates, const ChatParserNames& parsers);

  Result<ChatPrompt> render(const ChatRequest& request) const override;
  // If the request offers tools, a parser for calls. Reasoning is open if the prompt ends in the template's <think>.
  std::unique_ptr<ChatOutputParser> make_parser(bool reasoning_open, bool has_tools) const override;
  AnswerMarkup answer_markup() const override { return sluice::answer_markup(parsers_); }
  // The customary tokens that this template writes.
  std::vector<std::string_view> role_markers() const override;

  const TemplateForms& forms() const { return forms_; }
  const ChatParserNames& parsers() const { return parsers_; }

 private:
  TemplateChat(ChatTemplates templates, ChatParserNames parsers);

  Result<MarkedText> render_in_some_form(const ChatRequest& request, const jinja::Template& text) const;
  Result<MarkedText> render_continued(const ChatRequest& request, const jinja::Template& text) const;
  Status check_tools(const ChatRequest& request, const jinja::Template& text, const std::string& prompt) const;
  std::vector<std::size_t> find_messages(const MarkedText& prompt) const;

  ChatTemplates templates_;
  ChatParserNames parsers_;
  TemplateForms forms_;
  std::vector<std::string_view> markers_;  // the tokens of those that there are
                                           // that open messages in the templates
};

// The forms that a template takes, found by rendering small conversations.
TemplateForms find_template_forms(const ChatTemplates& templates);

}  // namespace sluice
