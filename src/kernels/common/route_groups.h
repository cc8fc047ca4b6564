// The choice of groups in expert routing (kernels/ops/router.h), for every ISA: it is small, and integer work.
// Used by kernels/cpu/route.isa.cc, kernels/cuda/shared/router.cu and kernels/ref/route.cc.
#pragma once

#include <cstdint>

#include "kernels/common/order_key.h"
#include "kernels/ops/router.h"

namespace sluice {

// Marks a group that is left out, or an expert already chosen: below the key of every score.
inline constexpr std::int32_t kNoKey = INT32_MIN;

// keys[e] is the order key of biased[e], a biased score. Keys of groups that are not kept become kNoKey. group_keys
// [groups] is scratch.
SLUICE_HD inline void keep_best_groups(const RouteArgs& args, const float* biased, std::int32_t* keys,
                                       std::int32_t* group_keys) {
  const int size = args.experts / args.groups;
  for (int g = 0; g < args.groups; ++g) {
    int best = g * size, second = best;
    for (int e = best + 1; e < (g + 1) * size; ++e) {
      if (keys[e] > keys[best]) {
        second = best;
        best = e;
      } else if (second == best || keys[e] > keys[second]) {
        second = e;
      }
    }
    group_keys[g] = args.group_score == GroupScore::kLargest ? keys[best] : order_key(biased[best] + biased[second]);
  }
  // Drops the worst group; of equal groups, the last.
  for (int left = args.groups - args.kept_groups; left > 0; --left) {
    int worst = -1;
    for (int g = 0; g < args.groups; ++g) {
      if (group_keys[g] != kNoKey && (worst < 0 || group_keys[g] <= group_keys[worst])) worst = g;
    }
    group_keys[worst] = kNoKey;
    for (int e = worst * size; e < (worst + 1) * size; ++e) keys[e] = kNoKey;
  }
}

}  // namespace sluice
