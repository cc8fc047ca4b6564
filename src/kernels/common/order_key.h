// Scores as integers of the same order, so that a choice by score is well defined for every bit pattern: -0 equals 0,
// and NaN, whatever its sign and payload, equals -inf. No key is INT32_MIN.
// Used by kernels/common, kernels/cuda/shared, kernels/cuda/sm90 and kernels/ref.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "base/host_device.h"

namespace sluice {

SLUICE_HD inline std::int32_t order_key(float score) {
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  const auto bits = std::bit_cast<std::int32_t>((score > kLowest ? score : kLowest) + 0.0F);
  return bits ^ ((bits >> 31) & 0x7FFFFFFF);
}

}  // namespace sluice
