// The AVX2 parts of kernels/cpu/linear_tile.h: register tiles, and the decoders of FP8 and FP4.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/avx2/vec.h"
#include "kernels/cpu/linear_formats.inc.h"

namespace sluice::avx2 {

struct LinearIsa {
  using Vec = F32x16;
  static constexpr int kTileGroups = 2;
  static constexpr int kPanelGroups = 1;
  static constexpr int kDirectRows = 2;
  static constexpr int kPanelFrom = 13;
  static constexpr int kChains = 2;
  static constexpr int kHeldInputs = 0;
  SLUICE_VEC static void prefetch(const std::byte*, std::size_t) {}
};

// Lines in Fp8Order::kPlanes, through f16 (vec.h). The NaN codes give 480.
class Fp8Decoder {
 protected:
  SLUICE_VEC void unpack(const std::byte* line, F32x16 (&w)[4]) const {
    const F32x16 by = F32x16::broadcast(256.0F);
    for (int i = 0; i < 4; ++i) w[i] = F32x16::load_e4m3_over_256(line + 16 * i) * by;
  }
};

class Mxfp4Weights {
 public:
  using Scale = cpu::ScaledE8m0<F32x16>;
  static constexpr int kInputs = 8;
  static constexpr std::size_t kLineBytes = 64, kScaleBytes = 1;
  SLUICE_VEC void decode(const std::byte* line, const std::byte*, F32x16 (&w)[8]) const {
    const I32x16 codes = I32x16::load(reinterpret_cast<const std::int32_t*>(line));
    w[1] = look_up(codes, shift_left<28>(codes));
    w[0] = look_up(shift_right<4>(codes), shift_left<24>(codes));
    w[3] = look_up(shift_right<8>(codes), shift_left<20>(codes));
    w[2] = look_up(shift_right<12>(codes), shift_left<16>(codes));
    w[5] = look_up(shift_right<16>(codes), shift_left<12>(codes));
    w[4] = look_up(shift_right<20>(codes), shift_left<8>(codes));
    w[7] = look_up(shift_right<24>(codes), shift_left<4>(codes));
    w[6] = look_up(shift_right<28>(codes), codes);
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

}  // namespace sluice::avx2
