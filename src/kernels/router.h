// Expert routing of V4 (spec section 8.1).
//
//   score_e = sqrt(softplus(logit_e));  by score: the `slots` best of score_e + bias_e, higher first, ties to the lower
//   id; by hash: the ids are given.  weight_s = score_{id_s} / (chain sum of the chosen scores in slot order) *
//   scaling.
#pragma once

#include <cstdint>

#include "kernels/exec.h"

namespace sluice {

struct RouteArgs {
  int rows = 0, experts = 0, slots = 0;
  const float* logits = nullptr;            // [rows, experts]
  const float* bias = nullptr;              // [experts]; null: 0
  const std::int32_t* given_ids = nullptr;  // [rows, slots] for hash layers; null: by score
  float scaling = 1.0F;
  std::int32_t* ids = nullptr;  // [rows, slots]
  float* weights = nullptr;     // [rows, slots]
};
void route(const Exec& exec, const RouteArgs& args);

}  // namespace sluice
