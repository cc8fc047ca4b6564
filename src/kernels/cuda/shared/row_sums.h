// lanes16 sums (kernels/device/exec.h) of whole rows by a large team.
// Used by kernels/cuda/shared and kernels/cuda/sm90.
#pragma once

#include <cmath>

#include "kernels/cuda/launch.h"

namespace sluice::SLUICE_CUDA_OPS {

// The threads of a team that sums a row, and the shared memory that it needs.
inline constexpr int kRowThreads = 128;
inline constexpr int kStagedFloats = 4096;
inline constexpr std::size_t kRowSharedBytes = (kStagedFloats + 16) * sizeof(float);

// The tree sum of sixteen lanes. Lane l begins at 0 and adds value(i) for i = l, l + 16, ... by add(lane, value). All
// threads read value(i) ahead; sixteen of them add.
template <class Value, class Add>
SLUICE_DEVICE float sum_row(const Team<kRowThreads>& team, int n, const Value& value, const Add& add) {
  float* staged = reinterpret_cast<float*>(team.shared);
  PerThread<float, kRowThreads> sum;
  team.each([&](int t) { sum[t] = 0.0F; });
  for (int first = 0; first < n; first += kStagedFloats) {
    const int count = n - first < kStagedFloats ? n - first : kStagedFloats;
    team.sync();
    team.each([&](int t) {
      for (int i = t; i < count; i += kRowThreads) staged[i] = value(first + i);
    });
    team.sync();
    team.each([&](int t) {
      if (t >= 16) return;
      float lane = sum[t];
      SLUICE_UNROLL_8
      for (int i = t; i < count; i += 16) lane = add(lane, staged[i]);
      sum[t] = lane;
    });
  }
  tree_sum16(team, sum);
  team.each([&](int t) {
    if (t == 0) staged[kStagedFloats] = sum[t];
  });
  team.sync();
  return staged[kStagedFloats];
}

struct AddSquare {
  SLUICE_DEVICE float operator()(float lane, float x) const { return std::fma(x, x, lane); }
};

// 1 / sqrt(lanes16(x * x) / n + eps)
SLUICE_DEVICE float reciprocal_rms(float squares, int n, float eps) {
  return 1.0F / std::sqrt(squares / static_cast<float>(n) + eps);
}

}  // namespace sluice::SLUICE_CUDA_OPS
