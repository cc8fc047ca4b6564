// The definition in sampler.h, written down plainly: a full sort and libm's exp.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/index_types.h"
#include "base/philox.h"
#include "sluice/sampling.h"

namespace sluice {

inline TokenId sampled_by_definition(const std::vector<float>& logits, const SamplingParams& params,
                                     Position position) {
  std::vector<int> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto logit = [&](int i) { return static_cast<double>(logits[static_cast<std::size_t>(i)]); };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return logit(a) > logit(b); });
  if (params.temperature == 0.0F) return order[0];
  if (params.top_k > 0) order.resize(std::min(order.size(), static_cast<std::size_t>(params.top_k)));
  std::vector<double> weights;
  for (const int i : order)
    weights.push_back(std::exp((logit(i) - logit(order[0])) / static_cast<double>(params.temperature)));
  const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::size_t kept = 0;
  double mass = 0;
  while (kept < order.size() && (kept == 0 || mass < static_cast<double>(params.top_p) * all || params.top_p == 1.0F) &&
         weights[kept] >= static_cast<double>(params.min_p)) {
    mass += weights[kept++];
  }
  const double target = philox_uniform(params.seed, static_cast<std::uint64_t>(position)) * mass;
  double sum = 0;
  for (std::size_t i = 0; i < kept; ++i) {
    sum += weights[i];
    if (sum > target) return order[i];
  }
  return order[kept - 1];
}

}  // namespace sluice
