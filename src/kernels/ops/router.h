// Expert routing (docs/models/deepseek_v4.md §8.1, docs/models/deepseek_v3.md §2, docs/models/deepseek_v2.md §2).
//
//   logits    with a gate: gate x, in the order of kernels/ops/linear.h; without, they are given
//   score_e   kSqrtSoftplus: sqrt(softplus(logit_e));  kSigmoid: 1 / (1 + exp(-logit_e));
//             kSoftmax: exp(logit_e - m) / z, m the largest logit, z the sum of the exponentials (lanes16, plain sums)
//   choice    biased_e = score_e + bias_e. With groups > 1 the experts are `groups` runs of equal length; a group's
//             score is its largest biased score (kLargest) or the sum of its two largest (kTwoLargest); only experts of
//             the `kept_groups` best groups can be chosen: the others are left out, whatever the signs of the scores.
//             Then the `slots` best biased scores, best first. Ties, of groups and of experts, go to the lower number.
//             The ids of the row's token (hash layers) replace the choice.
//   weight_s  score_{id_s} * scaling, or, normalised, score_{id_s} / (chain sum of the chosen scores in slot order +
//             sum_epsilon) * scaling
// Scores compare by kernels/common/order_key.h, so that broken checkpoints still choose distinct experts.
// Used by bench/row_kernels.cc, kernels/composed/composed_attend.cc, model/feed_forward.cc and model/numerics.cc.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/index_types.h"
#include "kernels/device/exec.h"
#include "kernels/ops/linear.h"

namespace sluice {

enum class RouterScore { kSqrtSoftplus, kSigmoid, kSoftmax };
enum class GroupScore { kLargest, kTwoLargest };

struct RouteArgs {
  int rows = 0, experts = 0, slots = 0;
  const LinearWeight* gate = nullptr;  // [experts, in]
  Rows x = {};                         // [rows, in]
  float* logits = nullptr;             // [rows, experts]
  const float* bias = nullptr;         // [experts]; null: 0
  // [vocab, slots], the experts of each token in a hash layer; null: chosen by score.
  const std::int32_t* hash_ids = nullptr;
  const TokenId* tokens = nullptr;  // [rows], with hash_ids
  float scaling = 1.0F;
  std::int32_t* ids = nullptr;  // [rows, slots]
  float* weights = nullptr;     // [rows, slots]
  RouterScore score = RouterScore::kSqrtSoftplus;
  bool normalised = true;
  float sum_epsilon = 0.0F;
  int groups = 1, kept_groups = 1;  // groups divides experts; slots <= kept_groups * experts / groups
  GroupScore group_score = GroupScore::kLargest;

  constexpr std::int32_t given_id(int row, int slot) const {
    return hash_ids[std::ptrdiff_t{tokens[row]} * slots + slot];
  }
};
void route(const Exec& exec, const RouteArgs& args);
// The part of route() after the logits.
void choose_experts(const Exec& exec, const RouteArgs& args);

}  // namespace sluice
