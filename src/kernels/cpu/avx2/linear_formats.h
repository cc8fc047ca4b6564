// The AVX2 parts of kernels/cpu/linear/linear_tile.h: register tiles, and the decoder of FP4.
// Used by int8_dot.h and kernels/cpu/avx2_vnni/int8_dot.h.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/avx2/vec.h"
#include "kernels/cpu/linear/linear_formats.h"
#include "kernels/device/cpu_features.h"

namespace sluice::cpu::SLUICE_ISA {

struct LinearIsa {
  using Vec = F32x16;
  static constexpr int kTileGroups = 2;
  static constexpr bool kStreams = false;
  static constexpr int kChains = 2;
  static constexpr int kRowsGroupsInnermost = 0;
  static constexpr int kPanelRows = 6, kPanelGroups = 1;
  static constexpr int kBlockGroups = 1;
  static constexpr RowsAtOnce kF32Rows{.direct = 2, .panel_from = 8};
  static constexpr RowsAtOnce kBf16Rows{.direct = 1, .blocks = 6, .panel_from = 17};
  static constexpr RowsAtOnce kFp8Rows{.direct = 2, .blocks = 6, .panel_from = 17};
  static constexpr RowsAtOnce kMxfp4Rows{.direct = 2, .blocks = 6, .panel_from = 8};
  static constexpr RowsAtOnce kCodesRows{.direct = 2, .blocks = 6, .panel_from = 8};
  static constexpr RowsAtOnce kTransposedRows{.direct = 2, .panel_from = 8};
  static constexpr CpuFeatures kBf16PanelsNeed{};
};

// Returns the codes of which the low four bits of each lane are the numbers.
template <class Form>
SLUICE_VEC F32x16 numbered_codes(I32x16 numbers) {
  const __m256 lower = _mm256_load_ps(kLevels<Form>.data()), upper = _mm256_load_ps(kLevels<Form>.data() + 8);
  const auto of = [&](__m256i n) {
    return _mm256_blendv_ps(_mm256_permutevar8x32_ps(lower, n), _mm256_permutevar8x32_ps(upper, n),
                            _mm256_castsi256_ps(_mm256_slli_epi32(n, 28)));
  };
  return {of(numbers.lo), of(numbers.hi)};
}

class Mxfp4Weights {
 public:
  using Scale = ScaledE8m0<F32x16>;
  static constexpr int kInputs = 8;
  static constexpr RowsAtOnce kRows = LinearIsa::kMxfp4Rows;
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
