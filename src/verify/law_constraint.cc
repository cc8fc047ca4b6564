// Used by law_alone.h and law_requests.h.
#include "verify/law_constraint.h"

#include <string_view>
#include <utility>

#include "base/check.h"
#include "grammar/automata/matcher.h"
#include "grammar/behind_marker.h"
#include "grammar/reasoning_budget.h"

namespace sluice {
namespace {

constexpr std::string_view kAlone = "=#~_@";  // in tokens of one character only, so that text of these is forced
constexpr std::string_view kCommon = "\"{}[]:,0123456789abcdefghijklmnopqrstuvwxyz<>/ -.";
constexpr std::string_view kEndOfReasoning = "~#=_";

// One character each, then pairs and triples.
std::vector<std::string> texts_of(std::size_t vocab) {
  std::vector<std::string> texts;
  for (const char c : kAlone) texts.emplace_back(1, c);
  for (const char c : kCommon) texts.emplace_back(1, c);
  for (std::size_t i = 0; texts.size() < vocab; ++i) {
    std::string& text = texts.emplace_back();
    text += kCommon[7 * i % kCommon.size()];
    text += kCommon[(i / kCommon.size() + 13 * i + 3) % kCommon.size()];
    if (i % 3 == 2) text += kCommon[(i / 100 + 5 * i) % kCommon.size()];
  }
  texts.resize(vocab);
  return texts;
}

GrammarSource source_of(LawConstraint kind) {
  switch (kind) {
    case LawConstraint::kSchema:
      // More objects than any answer has room for.
      return {.text = R"({"type": "array", "minItems": 40, "items": {
                "type": "object", "required": ["a", "b"], "additionalProperties": false,
                "properties": {"a": {"type": "integer"}, "b": {"enum": ["x", "yz", null, true]}}}})"};
    case LawConstraint::kRecursive:
      return {.kind = GrammarSource::Kind::kEbnf, .text = R"(root ::= ("<" root ">" | [a-z] | "=#=#@")+)"};
    default:
      return {.kind = GrammarSource::Kind::kRegex, .text = "(#=@_~=#[a-f]{1,3}|~=#@@_=[0-9]{1,2}|=_=_=_=_)*"};
  }
}

}  // namespace

LawConstraints::LawConstraints(std::size_t vocab)
    : texts_(texts_of(vocab)), grammars_([this] {
        const std::vector<std::string_view> views(texts_.begin(), texts_.end());
        return std::make_shared<const TokenTrie>(views, std::vector<std::int32_t>{});
      }) {}

std::unique_ptr<TokenConstraint> LawConstraints::make(LawConstraint kind, int budget) {
  const auto masks = grammars_.get(source_of(kind));
  SLUICE_CHECK(masks.ok(), masks.ok() ? "" : masks.status().message().c_str());
  Matcher matcher(*masks);
  if (kind != LawConstraint::kBudget) return std::make_unique<Matcher>(std::move(matcher));
  const std::string end(kEndOfReasoning);
  return std::make_unique<ReasoningBudget>(grammars_.trie(), ReasoningMarks{.opens = "", .ends = end}, budget,
                                           std::make_unique<BehindMarker>(end, matcher));
}

}  // namespace sluice
