// ChatTemplates: the Jinja templates that a model brings for its conversations, and the special tokens that they name.
//
// A folder has them in chat_template.jinja (and additional_chat_templates/NAME.jinja), else in the key "chat_template"
// of tokenizer_config.json: a text, or a list of {"name", "template"}; else in that key of chat_template.json. A GGUF
// file has them in its metadata. With tools "tool_use" is taken if there is one, else "default". Thread safety: plain
// values.
// Used by template_chat.h and text/chat/chat.cc.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "jinja/template.h"
#include "sluice/status.h"

namespace sluice {

struct NamedChatTemplate {
  std::string name;  // "default", "tool_use"
  jinja::Template text;
};

struct ChatTemplates {
  std::vector<NamedChatTemplate> templates = {};
  // "bos_token": "<s>" and the like, as the tokenizer's files name them; additional_special_tokens is a list.
  boost::json::object special_tokens = {};

  // The one to take; nullptr if there is none.
  const jinja::Template* find(bool has_tools) const;
};

// The templates of a model folder or GGUF file; none if it has none, or if only the special tokens are wanted.
Result<ChatTemplates> load_chat_templates(const std::string& folder, bool only_tokens = false);

// Returns the templates in the text of a tokenizer_config.json; `what` names it in errors.
Result<ChatTemplates> parse_chat_templates(const boost::json::value& tokenizer_config, const std::string& what);

// Replaces all templates by that of a file.
Status replace_chat_templates(ChatTemplates& templates, const std::string& path);

// Adds a template from its text; `what` names it in errors.
Status add_chat_template(ChatTemplates& templates, std::string name, std::string_view text, std::string_view what);

}  // namespace sluice
