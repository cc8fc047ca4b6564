// The token of a row by the definition in kernels/ops/sample.h, as its scalar reference writes it down.
#pragma once

#include <vector>

#include "base/index_types.h"
#include "base/threads/thread_pool.h"
#include "kernels/ref/kernels.h"
#include "sluice/sampling.h"

namespace sluice {

inline TokenId sampled_by_definition(const std::vector<float>& logits, const SamplingParams& params,
                                     Position position) {
  const SampleRow row{.temperature = params.temperature,
                      .top_k = params.top_k,
                      .top_p = params.top_p,
                      .min_p = params.min_p,
                      .seed = params.seed,
                      .position = position};
  SampledRow sampled;
  const FlushDenormals flush;
  ref::sample({1, static_cast<int>(logits.size()), logits.data(), &row, &sampled}, 0, 1);
  return sampled.token;
}

}  // namespace sluice
