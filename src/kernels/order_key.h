// Scores as integers of the same order, so that a choice by score is well defined for every bit pattern: -0 equals 0,
// and a NaN has a fixed place (a positive one above +inf, a negative one below -inf).
#pragma once

#include <bit>
#include <cstdint>

#include "base/host_device.h"

namespace sluice {

SLUICE_HD inline std::int32_t order_key(float score) {
  const auto bits = std::bit_cast<std::int32_t>(score + 0.0F);
  const std::int32_t key = bits ^ ((bits >> 31) & 0x7FFFFFFF);
  return key > INT32_MIN ? key : INT32_MIN + 1;
}

}  // namespace sluice
