// Chat templates: rendered on conversations with limits small enough to be met, and one in 64 as a server does it.
#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "files/json.h"
#include "fuzz_target.h"
#include "jinja/template.h"
#include "text/chat/chat.h"
#include "text/chat/templates/chat_templates.h"

namespace sluice {
namespace {

constexpr char kVariables[] = R"({
  "bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": true, "enable_thinking": true,
  "tools": [{"type": "function", "function": {"name": "f", "description": "\u00e9 <b>", "parameters":
    {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}}}],
  "messages": [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hello  w\u00f6rld\n"},
    {"role": "assistant", "content": "<think>\nHm.\n</think>\n\nHi", "reasoning_content": "Hm."},
    {"role": "user", "content": [{"type": "text", "text": "call"}, {"type": "image"}]},
    {"role": "assistant", "content": null, "tool_calls":
      [{"id": "call_1", "type": "function", "function": {"name": "f", "arguments": {"x": [1, 2.5, "a"]}}}]},
    {"role": "tool", "tool_call_id": "call_1", "name": "f", "content": "{\"y\": 18446744073709551615}"}]})";

constexpr jinja::Limits kLimits = {
    .max_nodes = 50'000, .max_text_bytes = std::size_t{64} << 10, .max_live_bytes = std::size_t{1} << 20};

void check_render(const jinja::Template& text) {
  static const boost::json::object variables = parse_json(kVariables, "variables")->get_object();
  const Result<MarkedText> out = text.render(variables, kLimits, /*now=*/1'700'000'000);
  if (!out.ok()) return fuzz_expect(out.status().message().starts_with("t.jinja: line "), out.status().message());
  fuzz_expect(out->size() <= kLimits.max_text_bytes, "the output is beyond its limit");
  const Result<MarkedText> again = text.render(variables, kLimits, 1'700'000'000);
  fuzz_expect(again.ok() && *again == *out, "the same template gave another text");
  // Half of the limits gives the same text or an error, never another text.
  jinja::Limits half = kLimits;
  half.max_nodes /= 2;
  half.max_live_bytes /= 2;
  const Result<MarkedText> less = text.render(variables, half, 1'700'000'000);
  fuzz_expect(!less.ok() || *less == *out, "other limits gave another text");
  (void)text.render({}, kLimits, 0).ok();
}

void check_encoding(std::string_view input) {
  ChatTemplates templates;
  if (!add_chat_template(templates, "default", input, "t.jinja").ok()) return;
  const auto encoding = make_chat_encoding("llama", "", std::move(templates));
  if (!encoding.ok()) return;
  ChatRequest request;
  request.messages.push_back({.role = ChatRole::kUser, .content = {{.text = "Hello"}}});
  const Result<ChatPrompt> prompt = (*encoding)->render(request);
  if (!prompt.ok()) return fuzz_expect(!prompt.status().message().empty(), "an error without a message");
  const auto parser = (*encoding)->make_parser(prompt->reasoning_open, /*has_tools=*/false);
  (void)parser->push("</think>Hi");
  (void)parser->finish(AnswerEnd::kComplete);
}

void check(std::string_view input) {
  const Result<jinja::Template> text = jinja::Template::parse(input, "t.jinja");
  if (!text.ok()) return fuzz_expect(text.status().message().starts_with("t.jinja: "), text.status().message());
  check_render(*text);
  if (hash_of(input) % 64 == 0) check_encoding(input);
}

}  // namespace

FuzzTarget fuzz_target() {
  FuzzTarget target = {
      .name = "chat_template", .more_inputs = {"chat_templates", "template_constructs.txt"}, .check = check};
  for (const char* word : {"{{ ",
                           " }}",
                           "{% ",
                           " %}",
                           "{%- ",
                           " -%}",
                           "{# ",
                           " #}",
                           "if ",
                           "elif ",
                           "else",
                           "endif",
                           "for ",
                           " in ",
                           "endfor",
                           "set ",
                           "endset",
                           "macro f(a, b=1)",
                           "endmacro",
                           "call(x) ",
                           "endcall",
                           "filter upper",
                           "endfilter",
                           "generation",
                           "endgeneration",
                           "break",
                           "continue",
                           "recursive",
                           "loop",
                           "loop.index0",
                           "loop.last",
                           "loop(",
                           "loop.cycle(",
                           "loop.previtem",
                           "loop.changed(",
                           "namespace(",
                           "ns.x",
                           "messages",
                           "message",
                           "['content']",
                           ".content",
                           "tools",
                           "range(",
                           "range(10**9)",
                           "dict(",
                           "raise_exception(",
                           "strftime_now(",
                           "'%Y %d %B'",
                           "joiner(",
                           "cycler(",
                           "lipsum(",
                           "|tojson",
                           "|tojson(indent=4)",
                           "|length",
                           "|trim",
                           "|join(', ')",
                           "|list",
                           "|sort",
                           "|map(attribute='role')",
                           "|selectattr('role', 'equalto', 'user')",
                           "|reject(",
                           "|items",
                           "|dictsort",
                           "|unique",
                           "|batch(3)",
                           "|slice(3)",
                           "|groupby('role')",
                           "|sum",
                           "|default(",
                           "|replace(",
                           "|indent(",
                           "|format(",
                           "|string",
                           "|int",
                           "|float",
                           "|round(2)",
                           "|center(80)",
                           "|wordwrap(",
                           "|truncate(",
                           "|xmlattr",
                           "|urlencode",
                           "|striptags",
                           "|first",
                           "|last",
                           "|reverse",
                           "|min",
                           "|max",
                           "|abs",
                           "|filesizeformat",
                           ".split(",
                           ".strip()",
                           ".startswith('a')",
                           ".replace('a', 'b')",
                           ".format(",
                           ".join(",
                           ".items()",
                           ".get('x')",
                           ".keys()",
                           ".upper()",
                           ".title()",
                           ".rsplit(",
                           ".zfill(",
                           ".ljust(",
                           ".expandtabs(",
                           ".append(1)",
                           ".update(",
                           ".count(",
                           ".index(",
                           ".encode()",
                           ".__class__",
                           " is defined",
                           " is none",
                           " is mapping",
                           " is string",
                           " is iterable",
                           " is divisibleby 3",
                           " is sameas ",
                           " not ",
                           " and ",
                           " or ",
                           " if x else ",
                           " ~ ",
                           " ** ",
                           " // ",
                           " % ",
                           " * ",
                           "[::-1]",
                           "[1:-1]",
                           "[-1]",
                           "(1, 2)",
                           "{'a': 1}",
                           "[[]] * 9",
                           "'a' * 9",
                           "'%s' % 1",
                           "'%999999999d' % 1",
                           "'{:>999999999}'.format(1)",
                           "'{0[0].a!r}'",
                           "true",
                           "none",
                           "*args",
                           "**kwargs",
                           "varargs",
                           "caller()",
                           "self",
                           "1e308",
                           "9999999999999999999999",
                           "0x7fffffffffffffff",
                           "-1",
                           "0",
                           "1.5",
                           "'\\u00e9'",
                           "\"x\""}) {
    target.words.emplace_back(word);
  }
  return target;
}

}  // namespace sluice
