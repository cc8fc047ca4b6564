// SamplingParams: how the next token is chosen from the logits.
//
// The sampled token is a function of (logits, these parameters, seed, position) only. Of the tokens that the filters
// keep it is the one with the highest logit / temperature + noise; the noise of a token is a function of (seed,
// position, its id), so rows with nearly the same logits mostly give the same token. Ties fall to the lower id.
// Temperature 0 is greedy.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sluice/status.h"

namespace sluice {

struct SamplingParams {
  float temperature = 1.0F;  // >= 0; 0: greedy
  float top_p = 1.0F;        // (0, 1]
  int top_k = 0;             // 0 or -1: off
  float min_p = 0.0F;        // [0, 1]: tokens below min_p times the best probability are dropped
  std::uint64_t seed = 0;    // the caller draws one when the request has none
  int top_logprobs = -1;     // -1: no log-probabilities; n >= 0: of the chosen token and the n best (<= 20)
};

// Checks the ranges; the message names the field, the range and the value.
Status validate(const SamplingParams& params);

}  // namespace sluice
