// Steps of rotations and of the Hadamard transform (kernels/ops/elementwise.h).
// Used by rotations.cu, store_heads.cu and store_kv.cu.
#pragma once

#include <cmath>

#include "kernels/cuda/launch.h"

namespace sluice::SLUICE_CUDA_OPS {

// Rotates pair `i` of `pairs` from x on.
SLUICE_DEVICE void rotate_pair(float* x, int i, int pairs, bool half_split, float c, float s) {
  float& first = x[half_split ? i : 2 * i];
  float& second = x[half_split ? i + pairs : 2 * i + 1];
  const float x0 = first, x1 = second;
  first = std::fma(x0, c, -(x1 * s));
  second = std::fma(x0, s, x1 * c);
}

inline float hadamard_scale(int dim) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(dim)));
}
SLUICE_DEVICE void butterfly(float* x, int distance, int pair) {
  const int i = (pair & ~(distance - 1)) * 2 + (pair & (distance - 1));
  const float a = x[i], b = x[i + distance];
  x[i] = a + b;
  x[i + distance] = a - b;
}

}  // namespace sluice::SLUICE_CUDA_OPS
