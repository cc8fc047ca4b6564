// Used by grammar.h.
#include "grammar/call_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>

#include "files/json.h"
#include "grammar/schema/json_text.h"
#include "grammar/schema/schema_network.h"

namespace sluice {
namespace {

constexpr std::string_view kThink = "<think>", kThinkEnd = "</think>";
constexpr std::array<std::uint8_t, 4> kSpace = {' ', '\t', '\r', '\n'};  // the white space that parsers of answers skip
constexpr std::size_t kMaxNameBytes = 256;

// The texts that begin with white space and then `text`.
Result<Dfa> texts_beginning(std::string_view text) {
  Nfa nfa;
  nfa.start = nfa.add_state();
  for (const std::uint8_t space : kSpace) nfa.add_byte(nfa.start, space, space, nfa.start);
  nfa.accept = nfa.add_literal(nfa.start, text);
  nfa.add_byte(nfa.accept, 0, 0xFF, nfa.accept);
  return determinize(nfa);
}

class CallNetwork {
 public:
  explicit CallNetwork(const CallGrammar& grammar)
      : grammar_(grammar),
        markup_(*grammar.markup),
        text_(builder_, /*compact=*/false),
        answer_text_(builder_, grammar.compact_schema) {}

  Result<Network> compile() {
    if (!markup_.parameter.empty()) SLUICE_RETURN_IF_ERROR(text_.ban(markup_.ends_parameter));
    const std::int32_t root = builder_.add_rule("answer");
    SLUICE_RETURN_IF_ERROR(add_calls());
    if (grammar_.forced || !grammar_.schema.empty()) {
      SLUICE_RETURN_IF_ERROR(add_bound(builder_.start(root)));
    } else {
      SLUICE_RETURN_IF_ERROR(add_free(builder_.start(root)));
    }
    return builder_.finish(root);
  }

 private:
  void add_spaces(std::int32_t at) {
    for (const std::uint8_t space : kSpace) builder_.add_byte(at, space, space, at);
  }

  // names_: the state before the name of a call; all that follows it.
  Status add_calls() {
    names_ = builder_.add_state();
    const std::int32_t behind = builder_.add_state();
    for (const CallGrammar::Tool& tool : grammar_.tools) {
      SLUICE_ASSIGN_OR_RETURN(const std::int32_t arguments, add_arguments(tool));
      const std::int32_t name = builder_.add_literal(builder_.add_literal(names_, tool.name), markup_.name_end);
      const std::int32_t end = builder_.add_state();
      builder_.add_call(name, arguments, end);
      builder_.add_empty(builder_.add_literal(end, markup_.call_end), behind);
    }
    if (grammar_.parallel) {
      builder_.add_empty(builder_.add_literal(builder_.add_literal(behind, markup_.between), markup_.call), names_);
    }
    const std::int32_t end = builder_.add_literal(behind, markup_.close);
    builder_.set_end(end);
    if (!grammar_.may_go_on) return {};
    const std::int32_t more = builder_.add_state();
    builder_.add_empty(end, more);
    builder_.add_byte(more, '\n', '\n', more);
    builder_.set_end(more);
    return {};
  }

  // Most tools of a request have no schema or the same one.
  Result<std::int32_t> add_arguments(const CallGrammar::Tool& tool) {
    const auto plain = [](char c) {
      return static_cast<unsigned char>(c) > ' ' && c != '"' && c != '\\' && c != '<' && c != '>' && c != '{' &&
             c != '`' && c != 0x7F;
    };
    if (tool.name.empty() || tool.name.size() > kMaxNameBytes || !std::ranges::all_of(tool.name, plain)) {
      return invalid_argument(
          fmt::format("expected names of at most {} characters, without spaces or any of \"\\<>{{`, found '{}'",
                      kMaxNameBytes, tool.name));
    }
    const auto [found, is_new] = arguments_.emplace(tool.schema, -1);
    if (!is_new) return found->second;
    SLUICE_ASSIGN_OR_RETURN(boost::json::value schema,
                            parse_json(tool.schema.empty() ? R"({"type":"object"})" : tool.schema, "schema"));
    const Result<std::int32_t> rule =
        SchemaNetwork(std::move(schema), builder_, text_, tool.where).add_arguments(markup_);
    if (!rule.ok()) return rule.status().with_context(tool.where);
    return found->second = *rule;
  }

  std::string block() const { return std::string(markup_.open) + std::string(markup_.call); }

  void add_block(std::int32_t from, std::size_t without = 0) {
    builder_.add_empty(builder_.add_literal(from, block().substr(without)), names_);
  }

  // The answer calls, or it is JSON of the schema, if there is one.
  Status add_bound(std::int32_t start) {
    std::int32_t at = start;
    if (grammar_.may_think) {
      const std::int32_t open = builder_.add_state();
      builder_.add_empty(start, open);
      add_spaces(open);
      SLUICE_ASSIGN_OR_RETURN(const std::int32_t thought, add_reasoning(open));
      at = builder_.add_state();
      builder_.add_empty(start, at);
      builder_.add_empty(builder_.add_literal(thought, kThinkEnd), at);
    }
    if (!grammar_.forced) SLUICE_RETURN_IF_ERROR(add_schema(at));
    for (int breaks = 0; breaks <= 2; ++breaks) {
      add_block(at);
      if (breaks < 2) at = builder_.add_literal(at, "\n");
    }
    return {};
  }

  // No string of the JSON holds the text that a parser takes for the beginning of a call.
  Status add_schema(std::int32_t at) {
    SLUICE_RETURN_IF_ERROR(answer_text_.ban(std::array{markup_.begins}));
    SLUICE_ASSIGN_OR_RETURN(boost::json::value schema, parse_json(grammar_.schema, "schema"));
    const Result<std::int32_t> rule = SchemaNetwork(std::move(schema), builder_, answer_text_, grammar_.where).add();
    if (!rule.ok()) return rule.status().with_context(grammar_.where);
    const std::int32_t end = builder_.add_state();
    builder_.add_call(at, *rule, end);
    builder_.set_end(end);
    return answer_text_.status();
  }

  // Returns the state within the reasoning, before its end.
  Result<std::int32_t> add_reasoning(std::int32_t open) {
    SLUICE_ASSIGN_OR_RETURN(const Dfa closed, texts_with(std::array{kThinkEnd}));
    SLUICE_ASSIGN_OR_RETURN(const Dfa reasoning, subtract(any_bytes(), closed));
    return builder_.add_dfa(builder_.add_literal(open, kThink), reasoning);
  }

  Status add_free(std::int32_t start) {
    SLUICE_ASSIGN_OR_RETURN(const Dfa called, texts_with(std::array{markup_.begins}));
    SLUICE_ASSIGN_OR_RETURN(Dfa free, subtract(any_bytes(), called));
    if (!markup_.at_start.empty()) {
      SLUICE_ASSIGN_OR_RETURN(const Dfa calls, texts_beginning(markup_.at_start));
      SLUICE_ASSIGN_OR_RETURN(free, subtract(free, calls));
    }
    if (!grammar_.may_think) return add_answer(start, free), Status();
    SLUICE_ASSIGN_OR_RETURN(const Dfa thinks, texts_beginning(kThink));
    SLUICE_ASSIGN_OR_RETURN(const Dfa thoughtless, subtract(free, thinks));
    add_answer(start, thoughtless);
    const std::int32_t open = builder_.add_state();
    builder_.add_empty(start, open);
    add_spaces(open);
    SLUICE_ASSIGN_OR_RETURN(const std::int32_t thought, add_reasoning(open));
    builder_.set_end(thought);
    add_answer(builder_.add_literal(thought, kThinkEnd), free);
    return {};
  }

  // A text in which nothing is called, or after which something is.
  void add_answer(std::int32_t start, const Dfa& free) {
    const std::int32_t text = builder_.add_dfa(start, free);
    builder_.set_end(text);
    const bool is_block = block().starts_with(markup_.begins);
    add_block(builder_.add_literal(text, markup_.begins), is_block ? markup_.begins.size() : 0);
    if (markup_.at_start.empty()) return;
    const std::int32_t before = builder_.add_state();
    builder_.add_empty(start, before);
    add_spaces(before);
    add_block(before);
  }

  const CallGrammar& grammar_;
  const CallMarkup& markup_;
  NetworkBuilder builder_;
  JsonText text_, answer_text_;
  std::map<std::string, std::int32_t> arguments_;  // states of arguments, by schema
  std::int32_t names_ = -1;
};

}  // namespace

Result<Network> compile_calls(const CallGrammar& grammar) {
  if (grammar.tools.size() > kMaxTools) {
    return invalid_argument(fmt::format("expected at most {} tools, found {}", kMaxTools, grammar.tools.size()));
  }
  return CallNetwork(grammar).compile();
}

}  // namespace sluice
