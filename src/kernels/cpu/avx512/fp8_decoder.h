// The decoder of FP8 weights for this target (kernels/cpu/linear/linear_fp8.isa.cc): lines in Fp8Order::kPlanes,
// through f16. The NaN codes give 480.
#pragma once

#include <cstddef>

#include "kernels/cpu/avx512/vec.h"

namespace sluice::cpu::SLUICE_ISA {

class Fp8Decoder {
 public:
  using Line = const std::byte*;
  SLUICE_VEC Line load(const std::byte* line) const { return line; }
  template <int P>
  SLUICE_VEC void pair(Line line, F32x16& even, F32x16& odd) const {
    const F32x16 by = F32x16::broadcast(256.0F);
    odd = F32x16::load_e4m3_over_256(line + 16 * (2 * P + 1)) * by;
    even = F32x16::load_e4m3_over_256(line + 16 * (2 * P)) * by;
  }
};

}  // namespace sluice::cpu::SLUICE_ISA
