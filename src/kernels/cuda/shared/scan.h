// Prefix sums by a large team.
// Used by expert_lists.h and select_head.h.
#pragma once

#include "kernels/cuda/launch.h"

namespace sluice::SLUICE_CUDA_OPS {

// values[t] becomes the sum of the values of threads 0 to t. `scratch`, in shared memory, has kThreads of them. All
// threads have passed a sync() when it returns, and may read scratch, which holds the same.
template <class Integer, int kThreads>
SLUICE_DEVICE void scan(const Team<kThreads>& team, PerThread<Integer, kThreads>& values, Integer* scratch) {
  team.sync();
  team.each([&](int t) { scratch[t] = values[t]; });
  for (int distance = 1; distance < kThreads; distance *= 2) {
    team.sync();
    team.each([&](int t) {
      if (t >= distance) values[t] += scratch[t - distance];
    });
    team.sync();
    team.each([&](int t) { scratch[t] = values[t]; });
  }
  team.sync();
}

}  // namespace sluice::SLUICE_CUDA_OPS
