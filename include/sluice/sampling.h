// SamplingParams: how the next token is chosen from the logits.
//
// The sampled token is a function of (logits, these parameters, seed, position) only, and with TokenRules of the tokens
// before it. Among the tokens that the filters keep, it is the one with the highest logit / temperature + noise. The
// noise of a token is a function of (seed, position, its id), so rows with nearly the same logits mostly give the same
// token. Ties go to the lower id. Temperature 0 is greedy.
#pragma once

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "sluice/status.h"

namespace sluice {

struct SamplingParams {
  float temperature = 1.0F;                    // 0: greedy
  float top_p = 1.0F;                          // 1: off
  int top_k = 0;                               // 0 or -1: off
  float min_p = 0.0F;                          // tokens below min_p times the best probability are dropped
  std::uint64_t seed = 0;                      // if the request has none, the caller draws one
  int top_logprobs = -1;                       // -1: no log-probabilities; n >= 0: of the chosen token and the n best
  std::vector<std::int32_t> logprob_ids = {};  // with log-probabilities: those of these tokens, too, behind the best
  // Log-probabilities of the raw logits, or processed: those at which tokens are drawn, after temperature, rules,
  // constraint and filters; -inf for what cannot be drawn. Temperature 0 counts as 1 without filters.
  bool processed_logprobs = false;
};

// TokenRules: what the tokens before one say of it. Counts are of the answer's own tokens, but where the prompt's are
// named. With c the count of an id, and seen whether it is in the prompt or the answer:
//   rep(l)   l / repetition_penalty if l > 0, else l * repetition_penalty
//   logit    l + ((rep(l) - l) where seen) + (logit_bias - frequency_penalty * c - presence_penalty where c > 0)
// in f32, each operation rounded, the last bracket first by itself from left to right. Log-probabilities stay those of
// the raw logits.
struct TokenRules {
  float presence_penalty = 0.0F, frequency_penalty = 0.0F, repetition_penalty = 1.0F;
  std::vector<std::pair<std::int32_t, float>> logit_bias = {};  // by id, each once
  int min_tokens = 0;                                           // no end token is drawn before this many tokens
  std::vector<std::vector<std::int32_t>> bad_words = {};        // sequences that the answer does not have
  std::vector<std::int32_t> allowed_token_ids = {};             // no others are drawn; empty: all may be

  bool changes_logits() const {
    return presence_penalty != 0 || frequency_penalty != 0 || repetition_penalty != 1 || !logit_bias.empty();
  }
  bool any() const { return changes_logits() || min_tokens > 0 || !bad_words.empty() || !allowed_token_ids.empty(); }
};

// The legal ranges, by which every reader of a parameter checks it; an API may allow less.
template <class T>
struct SamplingRange {
  T low, high;
  constexpr bool contains(T value) const { return value >= low && value <= high; }  // false for NaN
};
inline constexpr SamplingRange<float> kTemperatures{0.0F, 100.0F};
inline constexpr SamplingRange<float> kTopPs{std::numeric_limits<float>::min(), 1.0F};  // more than 0
inline constexpr SamplingRange<int> kTopKs{-1, std::numeric_limits<int>::max()};
inline constexpr SamplingRange<float> kMinPs{0.0F, 1.0F};
inline constexpr int kMaxTopLogprobs = 20, kMaxLogprobIds = 64;
inline constexpr SamplingRange<float> kPenalties{-2.0F, 2.0F};  // presence, frequency
inline constexpr SamplingRange<float> kRepetitionPenalties{0.01F, 100.0F};
inline constexpr SamplingRange<float> kLogitBiases{-100.0F, 100.0F};

// Checks the ranges; the message names the field, the range and the value.
Status validate(const SamplingParams& params);
Status validate(const TokenRules& rules, int vocab_size);

}  // namespace sluice
