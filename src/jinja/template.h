// A Jinja2 template, as found in tokenizer_config.json, chat_template.jinja and GGUF files, that writes conversations.
//
//   auto chat = Template::parse(source, "chat_template.jinja");
//   auto text = chat->render({{"messages", messages}, {"add_generation_prompt", true}});
//
// It means what it means to jinja2 in the environment that `transformers` sets up: an immutable sandbox,
// trim_blocks, lstrip_blocks, loop controls, {% generation %}, tojson without ASCII escapes, raise_exception,
// strftime_now. docs/chat.md lists what is supported. A template reads its variables and nothing else: there are no
// files, imports or attributes of the interpreter, and its work is counted and limited (run.h).
//
// Thread safety: a const Template may be rendered from any number of threads. Stack: a render takes at most
// Limits::max_depth nested evaluations, about 1 MiB.
// Used by text/chat/templates/chat_templates.h.
#pragma once

#include <boost/json/fwd.hpp>
#include <ctime>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "jinja/ast.h"
#include "jinja/run.h"
#include "sluice/status.h"

namespace sluice::jinja {

class Evaluator;

class Template {
 public:
  // `what` names the template in errors: "chat_template.jinja: line 3: unknown tag 'foo'".
  static Result<Template> parse(std::string_view source, std::string_view what);

  // Renders with these variables; others are undefined. kInvalidArgument with the line for what the template raises,
  // for what Python would raise, and for a limit. Every variable counts as the template's own.
  Result<MarkedText> render(const boost::json::object& variables) const;
  Result<MarkedText> render(const boost::json::object& variables, const Limits& limits, std::time_t now) const;
  // The same with the variables of a request, which go before others of that name: the texts in them are a client's,
  // but for those that are one of `own_words`, such as the name of a role.
  Result<MarkedText> render_request(const boost::json::object& own, const boost::json::object& request,
                                    std::span<const std::string_view> own_words) const;

  const std::string& source() const { return source_; }
  // Returns whether the template names the variable anywhere.
  bool mentions(std::string_view name) const;

 private:
  Template(std::string source, std::string what, TemplateTree tree)
      : source_(std::move(source)),
        what_(std::move(what)),
        tree_(std::make_shared<const TemplateTree>(std::move(tree))) {}

  Result<MarkedText> finish(Run& run, Evaluator& evaluator) const;

  std::string source_;
  std::string what_;
  std::shared_ptr<const TemplateTree> tree_;
};

}  // namespace sluice::jinja
