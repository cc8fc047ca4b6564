// Sampler: the tokens of a step, one for each row of logits. A token is a function of (logits, parameters, position)
// only, the sampling law; kernels/sample.h says which.
//
// Thread safety: one thread at a time per object (it owns memory that is reused); rows run on the pool of the Exec.
#pragma once

#include <cstddef>
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

class Sampler {
 public:
  void clear();
  // A token from row `row` of the logits. `params` must be valid; `position` is the index of the new token in its
  // sequence.
  void add(std::size_t row, const SamplingParams& params, Position position);
  // Draws all that were added since clear(). logits: [rows, vocab].
  void run(const Exec& exec, std::span<const float> logits, std::size_t vocab);
  // The i-th that was added; kInternal when its logits are not a distribution: one is NaN or +infinity, or all are
  // -infinity.
  Status take(std::size_t i, Sampled* out) const;

 private:
  std::vector<SampleRow> rows_;
  std::vector<SampledRow> sampled_;
};

// One token from one row.
Status sample_one(const Exec& exec, std::span<const float> logits, const SamplingParams& params, Position position,
                  Sampled* out);

}  // namespace sluice
