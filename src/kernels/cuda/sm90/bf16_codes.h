// Pairs of bf16 values: of floats, and of e4m3 codes.
// Used by kernels/cuda/sm90.
#pragma once

#include "kernels/cuda/sm90/fragments.h"

namespace sluice::cuda_sm90 {

SLUICE_DEVICE std::uint32_t bf16_pair(float low, float high) {
  std::uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

// Converts four codes of e4m3, none of them NaN, to bf16: times 2^-120 times a factor.
SLUICE_DEVICE void codes_to_bf16(std::uint32_t codes, std::uint32_t factor, std::uint32_t* to) {
  const auto spread = [](std::uint32_t bytes) {  // takes codes in bytes 1 and 3
    return (bytes & 0x80008000U) | ((bytes >> 4) & 0x07F007F0U);
  };
  to[0] = multiply_pairs(spread(__byte_perm(codes, 0, 0x1404)), factor);
  to[1] = multiply_pairs(spread(__byte_perm(codes, 0, 0x3424)), factor);
}

}  // namespace sluice::cuda_sm90
