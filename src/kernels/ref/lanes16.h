// The common reduction orders of kernels/device/exec.h, in scalar code.
// Used by kernels/ref.
#pragma once

#include <array>
#include <cmath>

namespace sluice::ref {

using Lanes16 = std::array<float, 16>;

inline float tree_sum(Lanes16 lanes) {
  for (int half = 8; half > 0; half /= 2) {
    for (int l = 0; l < half; ++l) lanes[static_cast<std::size_t>(l)] += lanes[static_cast<std::size_t>(l + half)];
  }
  return lanes[0];
}

// lanes16(a * b, n)
inline float lanes16_dot(const float* a, const float* b, int n) {
  Lanes16 lanes{};
  for (int base = 0; base < n; base += 16) {
    for (int l = 0; l < 16; ++l) {
      float& acc = lanes[static_cast<std::size_t>(l)];
      const bool inside = base + l < n;
      acc = std::fma(inside ? a[base + l] : 0.0F, inside ? b[base + l] : 0.0F, acc);
    }
  }
  return tree_sum(lanes);
}

// The same, but the second half of each 32 comes before the first.
inline float lanes16_dot_of_pairs(const float* a, const float* b, int n) {
  Lanes16 lanes{};
  for (int base = 0; base < n; base += 32) {
    for (int l = 0; l < 16; ++l) {
      float& acc = lanes[static_cast<std::size_t>(l)];
      for (int i : {base + 16 + l, base + l}) acc = std::fma(i < n ? a[i] : 0.0F, i < n ? b[i] : 0.0F, acc);
    }
  }
  return tree_sum(lanes);
}

// 1 / sqrt(lanes16(x * x) / n + eps)
inline float reciprocal_rms(const float* x, int n, float eps) {
  return 1.0F / std::sqrt(lanes16_dot(x, x, n) / static_cast<float>(n) + eps);
}

}  // namespace sluice::ref
