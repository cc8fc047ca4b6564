// RuledTokens: turns TokenRules into a mask and a bias for the draw of a sequence's next token.
//
// Its answer is a function of the rules and of the tokens alone. It counts only tokens that it has not seen yet, so
// repeated calls and recomputed steps change nothing. It belongs to one sequence. Thread safety: one thread at a time.
// Used by sequence_table.h and verify/law_alone.h.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/index_types.h"
#include "sluice/sampling.h"
#include "sluice/status.h"

namespace sluice {

class RuledTokens {
 public:
  // `ends`: the tokens that min_tokens keeps back. The rules are valid.
  RuledTokens(std::shared_ptr<const TokenRules> rules, std::vector<TokenId> ends, std::size_t vocab);

  static void allow_all(std::span<std::uint32_t> words, std::size_t vocab);

  bool needs_logits() const { return rules_->repetition_penalty != 1.0F; }
  bool changes_logits() const { return !bias_.empty(); }
  // Prepares the draw of the token after `tokens`, whose first `prompt` are the prompt. Removes the tokens that the
  // rules ban from `allowed`, and makes bias(). Each call must give the same sequence, as long or longer, except after
  // forget(). Fails if the rules leave no token.
  Status apply(std::span<const TokenId> tokens, int prompt, std::span<const float> logits,
               std::span<std::uint32_t> allowed);
  // Takes back all tokens of the last apply() except the first `keep`.
  void forget(std::span<const TokenId> tokens, int prompt, std::size_t keep);
  // [vocab], to be added to the logits; null: nothing. Valid until the next apply().
  const float* bias() const { return bias_.empty() ? nullptr : bias_.data(); }

 private:
  void count(std::span<const TokenId> tokens, int prompt);
  float own_bias(TokenId id) const;  // without the repetition penalty's part
  void ban_bad_words(std::span<const TokenId> answer, std::span<std::uint32_t> allowed) const;

  const std::shared_ptr<const TokenRules> rules_;
  const std::vector<TokenId> ends_;
  const std::size_t vocab_;
  std::vector<std::uint32_t> allowed_;  // allowed_token_ids; empty: all
  std::unordered_map<TokenId, float> logit_bias_;
  std::size_t counted_ = 0;                     // tokens counted so far
  std::unordered_map<TokenId, int> in_answer_;  // each token's count
  struct Seen {
    TokenId id = 0;
    std::size_t first = 0;  // its first place
  };
  std::vector<Seen> seen_;     // each once, in their order; with a repetition penalty
  std::vector<bool> is_seen_;  // [vocab]; the same
  std::vector<float> bias_;    // [vocab]; empty: the rules change no logits
};

}  // namespace sluice
