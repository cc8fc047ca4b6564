// Between the API's sampling parameters and tokens and the op that draws (kernels/sample.h). A token is a function of
// (logits, parameters, position) only, the sampling law.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/index_types.h"
#include "kernels/sample.h"
#include "sluice/engine.h"
#include "sluice/sampling.h"
#include "sluice/status.h"

namespace sluice {

struct Sampled {
  TokenId token = -1;
  float logprob = 0.0F;           // when params.top_logprobs >= 0
  std::vector<TokenLogprob> top;  // the params.top_logprobs best, best first
};

// The op's parameters for a token from row `row` of the logits. `params` must be valid; `position` is the index of the
// new token in its sequence, `slot` where the device keeps it (-1: nowhere).
SampleRow sample_row(const SamplingParams& params, std::size_t row, Position position, std::int32_t slot = -1);

// The op's result for the token at `position`. kInternal if the logits are not a distribution: one is NaN or +infinity,
// or all are -infinity.
Status read_sample(const SampledRow& row, Position position, Sampled* out);

// One token from one row of logits on the host.
Status sample_one(const Exec& exec, std::span<const float> logits, const SamplingParams& params, Position position,
                  Sampled* out);

}  // namespace sluice
