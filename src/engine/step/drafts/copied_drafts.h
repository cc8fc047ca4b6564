// CopiedDrafts: guesses at the next tokens of a text. It copies the tokens that followed an earlier occurrence of the
// text's longest suffix, in the text or in a prediction that the client sent ("prompt lookup"; Saxena 2023, and Yang et
// al., arXiv 2304.04487).
//
// It keeps an index of pairs of tokens: each pair has a chain of its places, the latest first. The guesses are a
// function of the tokens alone. Memory: 12 to 16 bytes a token. Thread safety: one thread at a time.
// Used by engine/step/sequence_table.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/index_types.h"

namespace sluice {

class CopiedDrafts {
 public:
  static constexpr int kLeastMatch = 2;   // tokens
  static constexpr int kMostMatch = 32;   // longer ones count as equal; the latest is used
  static constexpr int kMostVisits = 64;  // places of a pair that are looked at, the latest first

  struct Match {
    int length = 0;       // tokens of the suffix; 0: there is none
    std::int32_t at = 0;  // the place where the text after it begins, for copy()
    bool skips = false;   // the suffix ends before the last token, where the prediction has another
  };

  // Sets the prediction, before the first token.
  void predict(std::span<const TokenId> prediction);
  void append(std::span<const TokenId> tokens);
  std::int32_t tokens() const { return static_cast<std::int32_t>(text_.size()) - prediction_; }

  // Returns the longest match. Among equal ones the prediction's wins, then the latest. If the last token is not the
  // predicted one, and no match is as long as the one that ended before it, a word was probably replaced: the match
  // then goes on after the prediction's own token. O(kMostVisits * kMostMatch).
  Match find() const;
  // Returns a match with the prediction if the last token is its first one: for the first token of an answer.
  Match beginning() const;
  // Copies the tokens after the match, `to.size()` at most, and returns their number. At the end of the text it goes on
  // with the tokens just copied, so a repetition is continued.
  int copy(const Match& match, std::span<TokenId> to) const;
  bool predicted(const Match& match) const { return match.at < prediction_; }  // true: it is in the prediction

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
  std::vector<std::int32_t> before_;  // by a pair's last token: that of the previous pair in its chain
};

}  // namespace sluice
