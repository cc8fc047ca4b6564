// SamplingParams: how the next token is chosen from the logits.
//
// The sampled token is a function of (logits, these parameters, seed, position) only. Of the tokens that the filters
// keep, it is the one with the highest logit / temperature + noise; the noise of a token is a function of (seed,
// position, its id), so rows with nearly the same logits mostly give the same token. Ties go to the lower id.
// Temperature 0 is greedy.
#pragma once

#include <cstdint>
#include <limits>

#include "sluice/status.h"

namespace sluice {

struct SamplingParams {
  float temperature = 1.0F;  // 0: greedy
  float top_p = 1.0F;        // 1: off
  int top_k = 0;             // 0 or -1: off
  float min_p = 0.0F;        // tokens below min_p times the best probability are dropped
  std::uint64_t seed = 0;    // if the request has none, the caller draws one
  int top_logprobs = -1;     // -1: no log-probabilities; n >= 0: of the chosen token and the n best
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
inline constexpr int kMaxTopLogprobs = 20;

// Checks the ranges; the message names the field, the range and the value.
Status validate(const SamplingParams& params);

}  // namespace sluice
