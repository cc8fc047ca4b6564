// The AVX-512 parts of kernels/cpu/linear_tile.inc.h: register tiles, and the decoders of FP8 and FP4.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/avx512/intrinsics.h"
#include "kernels/cpu/avx512/vec.h"
#include "kernels/cpu/linear_formats.inc.h"

namespace sluice::avx512 {

struct LinearIsa {
  using Vec = F32x16;
  static constexpr int kTileGroups = 4;
  static constexpr bool kStreams = false;
  static constexpr int kChains = 4;
  static constexpr int kRowsGroupsInnermost = 2;
  static constexpr int kPanelRows = 6, kPanelGroups = 4;
};

struct StreamingIsa : LinearIsa {
  static constexpr bool kStreams = true;
};

// Lines in Fp8Order::kPlanes, through f16 (vec.h). The NaN codes give 480.
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

// The bf16 of every e2m1 code, twice.
alignas(64) inline constexpr std::array<std::uint16_t, 32> kE2m1Bf16 = [] {
  constexpr std::uint16_t kMagnitudes[] = {0, 0x3F00, 0x3F80, 0x3FC0, 0x4000, 0x4040, 0x4080, 0x40C0};
  std::array<std::uint16_t, 32> table{};
  for (std::size_t i = 0; i < table.size(); ++i) {
    table[i] = static_cast<std::uint16_t>(kMagnitudes[i % 8] | (i % 16 >= 8 ? 0x8000 : 0));
  }
  return table;
}();

class Mxfp4Weights {
 public:
  using Scale = cpu::ScaledE8m0<F32x16>;
  static constexpr int kInputs = 8, kDirectRows = 4, kPanelFrom = 13;
  static constexpr std::size_t kLineBytes = 64, kScaleBytes = 1;
  using Line = I32x16;
  SLUICE_VEC Line load(const std::byte* line, const std::byte*) const { return {_mm512_loadu_si512(line)}; }
  // The permutation reads the low 5 bits of each word: a nibble, and a bit of the next one, which the doubled table
  // ignores.
  template <int P>
  SLUICE_VEC I32x16 bf16_pair(Line line) const {
    return {_mm512_permutexvar_epi16(_mm512_srli_epi16(line.v, 4 * P), values_)};
  }
  template <int P>
  SLUICE_VEC void pair(Line line, F32x16& even, F32x16& odd) const {
    cpu::split_bf16_pairs(bf16_pair<P>(line), even, odd);
  }

 private:
  __m512i values_ = _mm512_load_si512(kE2m1Bf16.data());
};

}  // namespace sluice::avx512
