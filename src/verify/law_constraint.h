// LawConstraints: the constraints on the answers of a law's requests: grammars of each kind, and budgets of reasoning.
// Their vocabulary is made up, as the laws are about ids and a checked model may have no tokenizer here.
//
// Their texts never end, so that an answer is as long as its request wants. Thread safety: as GrammarCache; the result
// of make() belongs to the caller.
// Used by law_alone.h and law_requests.h.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "grammar/grammar.h"
#include "sluice/constraint.h"

namespace sluice {

enum class LawConstraint : std::uint8_t {
  kNone,
  kRuns,       // a regular expression: runs of characters that one token each can write, and words between them
  kSchema,     // objects of a JSON schema
  kRecursive,  // brackets in brackets
  kBudget,     // free text of a few tokens at most, then its end, then kRuns
};
inline constexpr int kLawConstraints = 5;

class LawConstraints {
 public:
  explicit LawConstraints(std::size_t vocab);

  // Makes a constraint at its beginning. `budget`: tokens of kBudget's free text.
  std::unique_ptr<TokenConstraint> make(LawConstraint kind, int budget);

 private:
  std::vector<std::string> texts_;  // [vocab], the tokens' texts
  GrammarCache grammars_;
};

}  // namespace sluice
