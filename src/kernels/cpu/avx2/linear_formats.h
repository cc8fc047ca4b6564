// The AVX2 parts of kernels/cpu/linear_tile.h: register tiles, and the decoder of FP4.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/avx2/vec.h"
#include "kernels/cpu/linear_formats.h"
#include "kernels/cpu_features.h"

namespace sluice::cpu::SLUICE_ISA {

struct LinearIsa {
  using Vec = F32x16;
  static constexpr int kTileGroups = 2;
  static constexpr bool kStreams = false;
  static constexpr int kChains = 2;
  static constexpr int kRowsGroupsInnermost = 0;
  static constexpr int kPanelRows = 6, kPanelGroups = 1;
  // Rows whose sums stay in registers beside what decodes weights; rows from which panels pay (0: never).
  static constexpr int kDirectRows = 2, kCodesDirectRows = 2;
  static constexpr int kPanelFrom = 8, kF32PanelFrom = 8;
  static constexpr CpuFeatures kBf16PanelsNeed{};
};

class Mxfp4Weights {
 public:
  using Scale = ScaledE8m0<F32x16>;
  static constexpr int kInputs = 8, kDirectRows = 2, kPanelFrom = 8;
  static constexpr std::size_t kLineBytes = 64, kScaleBytes = 1;
  using Line = I32x16;
  SLUICE_VEC Line load(const std::byte* line, const std::byte*) const {
    return I32x16::load(reinterpret_cast<const std::int32_t*>(line));
  }
  template <int P>
  SLUICE_VEC void pair(const Line& line, F32x16& even, F32x16& odd) const {
    even = look_up(shift_right<4 * P>(line), shift_left<28 - 4 * P>(line));
    odd = look_up(shift_right<16 + 4 * P>(line), shift_left<12 - 4 * P>(line));
  }

 private:
  // The permutation reads the low 3 bits of each dword, the magnitude; bit 31 of `signs` is the sign.
  SLUICE_VEC F32x16 look_up(I32x16 codes, I32x16 signs) const {
    const I32x16 magnitude =
        as_bits(F32x16{_mm256_permutevar8x32_ps(values_, codes.lo), _mm256_permutevar8x32_ps(values_, codes.hi)});
    return as_float(magnitude | (signs & I32x16::broadcast(INT32_MIN)));
  }

  __m256 values_ = _mm256_setr_ps(0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F);
};

}  // namespace sluice::cpu::SLUICE_ISA
