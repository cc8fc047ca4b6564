// The AVX-512 parts of kernels/cpu/linear/linear_tile.h: register tiles, and the decoder of FP4.
// Used by kernels/cpu/avx512, kernels/cpu/avx512_amx, kernels/cpu/avx512_bf16, kernels/cpu/avx512_vnni and
// kernels/cpu/avx512vbmi.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/avx512/intrinsics.h"
#include "kernels/cpu/avx512/vec.h"
#include "kernels/cpu/linear/linear_formats.h"
#include "kernels/device/cpu_features.h"

namespace sluice::cpu::SLUICE_ISA {

struct LinearIsa {
  using Vec = F32x16;
  static constexpr int kTileGroups = 4;
  static constexpr bool kStreams = false;
  static constexpr int kChains = 8;  // two fmas a cycle, each with a latency of four cycles
  static constexpr int kRowsGroupsInnermost = 2;
  static constexpr int kPanelRows = 6, kPanelGroups = 4;
  static constexpr int kBlockGroups = 0;
  // Decoding a weight without scales costs so little that panels do not pay. The exception is bf16 on processors whose
  // shifts need the ports of multiply-adds (Intel).
  static constexpr RowsAtOnce kF32Rows{.direct = 6};
  static constexpr RowsAtOnce kBf16Rows{.direct = 6, .panel_from = 17};
  static constexpr RowsAtOnce kFp8Rows{.direct = 4, .alone = 5, .panel_from = 17};
  static constexpr RowsAtOnce kCodesRows{.direct = 2, .panel_from = 17};
  static constexpr RowsAtOnce kTransposedRows{.direct = 4, .panel_from = 17};
  static constexpr CpuFeatures kBf16PanelsNeed{CpuFeature::kReadsAhead};
};

struct StreamingIsa : LinearIsa {
  static constexpr bool kStreams = true;
};

// Returns the codes of which the low four bits of each lane are the numbers.
template <class Form>
SLUICE_VEC F32x16 numbered_codes(I32x16 numbers) {
  return {_mm512_permutexvar_ps(numbers.v, _mm512_load_ps(kLevels<Form>.data()))};
}

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
  using Scale = ScaledE8m0<F32x16>;
  static constexpr int kInputs = 8;
  static constexpr RowsAtOnce kRows{.direct = 4, .panel_from = 13};
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
    split_bf16_pairs(bf16_pair<P>(line), even, odd);
  }

 private:
  __m512i values_ = _mm512_load_si512(kE2m1Bf16.data());
};

}  // namespace sluice::cpu::SLUICE_ISA
