// BehindMarker: a constraint that begins after a text, as an answer does after the model's reasoning.
//
// Up to the end of the marker every text is allowed, and an end token only if the marker may lack. Tokens whose bytes
// go on after it must begin a text of the grammar. Thread safety: as TokenConstraint.
// Used by serve/generate/answer_constraint.cc, serve/generate/tool_constraint.cc and verify/law_constraint.cc.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/automata/matcher.h"
#include "sluice/constraint.h"

namespace sluice {

class BehindMarker final : public TokenConstraint {
 public:
  // `marker` is not empty, and nothing of it has been written yet. `may_end`: the answer may end before it.
  BehindMarker(std::string marker, const Matcher& grammar, bool may_end = false);

  Status allowed(std::span<std::uint32_t> words) override;
  bool accept(std::int32_t token) override;
  void rollback(std::size_t tokens) override;
  int forced(std::span<std::int32_t> tokens) override;
  std::unique_ptr<TokenConstraint> copy() const override;

 private:
  // The state after a token: the grammar has begun (and that token was one of its own, in part or whole), or the last
  // `matched` bytes are the marker's first.
  struct Step {
    bool begun = false, is_of_grammar = false, ended = false;
    std::size_t matched = 0;
  };

  std::size_t advance(std::size_t matched, char byte) const;
  // Returns where the marker ends in these bytes, if its first `matched` bytes came before; npos: not in them.
  // `matched` goes on.
  std::size_t end_in(std::string_view bytes, std::size_t& matched) const;

  std::string marker_;
  std::vector<std::size_t> borders_;  // for each beginning of the marker, its longest end that is a shorter beginning
  Matcher grammar_;
  bool may_end_;
  std::vector<Step> steps_;
};

}  // namespace sluice
