// ReasoningBudget: a constraint under which an answer's reasoning has a limited number of tokens: then only its end may
// come. It leaves alone the text before and after, which another constraint may bind.
//
// Thread safety: as TokenConstraint.
// Used by serve/generate/tool_constraint.cc and verify/law_constraint.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/automata/token_trie.h"
#include "sluice/constraint.h"

namespace sluice {

struct ReasoningMarks {
  std::string opens;  // what reasoning begins with; "": the answer begins within it
  std::string ends;   // its first byte occurs in it once
};

class ReasoningBudget final : public TokenConstraint {
 public:
  // `inner`: what else binds the answer; null: nothing.
  ReasoningBudget(std::shared_ptr<const TokenTrie> trie, ReasoningMarks marks, int budget,
                  std::unique_ptr<TokenConstraint> inner);
  ReasoningBudget(const ReasoningBudget& other);
  ReasoningBudget& operator=(const ReasoningBudget&) = delete;

  Status allowed(std::span<std::uint32_t> words) override;
  bool accept(std::int32_t token) override;
  void rollback(std::size_t tokens) override;
  int forced(std::span<std::int32_t> tokens) override;
  std::unique_ptr<TokenConstraint> copy() const override { return std::make_unique<ReasoningBudget>(*this); }

 private:
  enum class Phase : std::uint8_t { kStart, kReasoning, kDone };
  struct Step {
    Phase phase = Phase::kStart;
    int tokens = 0;           // tokens of the reasoning
    std::size_t matched = 0;  // bytes of its end
    std::string start = {};   // kStart: the answer without white space before it
  };

  bool is_spent() const { return steps_.back().phase == Phase::kReasoning && steps_.back().tokens >= budget_; }
  // The tokens that go on with the end of the reasoning: the one that is the rest of it, or all that begin it.
  std::vector<std::int32_t> rest() const;
  void read(Step& step, std::string_view bytes) const;

  const std::shared_ptr<const TokenTrie> trie_;
  const ReasoningMarks marks_;
  const int budget_;
  const std::unique_ptr<TokenConstraint> inner_;
  std::vector<Step> steps_;
};

}  // namespace sluice
