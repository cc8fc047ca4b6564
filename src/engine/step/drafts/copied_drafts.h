// CopiedDrafts: guesses at the next tokens of a text: what followed the longest suffix of it that occurred before, in
// the text or in a prediction that the client sent ("prompt lookup"; Saxena 2023, and Yang et al., arXiv 2304.04487).
//
// An index of pairs of tokens, each a chain of its places, the latest first. A function of the tokens alone. Memory: 12
// to 16 bytes a token. Thread safety: one thread at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/index_types.h"

namespace sluice {

class CopiedDrafts {
 public:
  static constexpr int kLeastMatch = 2;   // tokens
  static constexpr int kMostMatch = 32;   // longer ones are not told apart; the latest is taken
  static constexpr int kMostVisits = 64;  // places of a pair that are looked at, the latest first

  struct Match {
    int length = 0;       // of the suffix, in tokens; 0: there is none
    std::int32_t at = 0;  // where the text behind it begins, for copy()
    bool skips = false;   // the suffix ends before the last token, for which the prediction has another one
  };

  // Before the first token.
  void predict(std::span<const TokenId> prediction);
  void append(std::span<const TokenId> tokens);
  std::int32_t tokens() const { return static_cast<std::int32_t>(text_.size()) - prediction_; }

  // Of equal matches the prediction's, then the latest. Where the last token is not the predicted one, and no match is
  // as long as the one that ended before it, the prediction is taken to go on behind its own token: a word was
  // replaced. O(kMostVisits * kMostMatch).
  Match find() const;
  // Of the prediction, if the last token is its first one: for the first token of an answer.
  Match beginning() const;
  // The tokens behind the match, `to.size()` of them at most; returns how many there are. Where the text ends it goes
  // on with what was copied, so a repetition is continued.
  int copy(const Match& match, std::span<TokenId> to) const;
  bool predicted(const Match& match) const { return match.at < prediction_; }  // from the prediction

 private:
  static constexpr TokenId kSeparator = -1;  // between the prediction and the text

  using Chains = std::vector<std::int32_t>;  // by hash: the last token of the latest pair

  std::size_t place(std::int32_t last, const Chains& chains) const;
  void add_pairs(std::size_t first, Chains* chains);
  Match longest(std::int32_t last, std::int32_t end) const;
  int match_length(std::int32_t last, std::int32_t end) const;

  std::vector<TokenId> text_;    // the prediction, the separator, the tokens
  std::int32_t prediction_ = 0;  // tokens before the first own one, the separator included
  Chains own_, predicted_;
  std::vector<std::int32_t> before_;  // by the last token of a pair: that of the one before it in its chain
};

}  // namespace sluice
