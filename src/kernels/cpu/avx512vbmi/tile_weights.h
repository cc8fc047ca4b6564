// Weights as AMX tiles want them: of a slice of 32 inputs and a group of 16 outputs 16 lines, each the bf16 of two
// inputs, an output in each dword. Values are scaled, unless the scales are f32.
//
// A scale of e8m0 is a power of two: the tables hold values times 2^96, and a saturating subtraction takes (96 - its
// exponent) off the exponents, which leaves zero zero and what is too small a denormal, which counts as zero. Scales
// above 2^96, and NaN, go by way of f32.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/avx512/linear_formats.h"
#include "kernels/cpu/avx512vbmi/fp8_decoder.h"
#include "kernels/cpu/linear_tile.h"
#include "kernels/tile_inputs.h"

namespace sluice::cpu::SLUICE_ISA {

inline constexpr int kTableExponent = 96;

// Of 16 outputs.
struct TileScales {
  SLUICE_VEC explicit TileScales(const std::byte* codes) {
    const __m512i code = I32x16::load_bytes(codes).v;
    const __m512i less = _mm512_slli_epi32(_mm512_sub_epi32(_mm512_set1_epi32(127 + kTableExponent), code), 7);
    by = _mm512_or_si512(less, _mm512_slli_epi32(less, 16));
    const __m512i twice = _mm512_or_si512(code, _mm512_slli_epi32(code, 16));
    some = _mm512_test_epi16_mask(twice, twice);
  }
  __m512i by;      // what is taken off each bf16
  __mmask32 some;  // not 2^-127, which counts as 0
};

inline bool scales_are_usual(const std::byte* codes, int count) {
  constexpr auto kMost = static_cast<std::uint8_t>(127 + kTableExponent);
  __m512i most = _mm512_setzero_si512();
  for (int i = 0; i < count; i += 16) {
    most = _mm512_max_epu8(most, _mm512_castsi128_si512(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes + i))));
  }
  return _mm512_cmpgt_epu8_mask(most, _mm512_set1_epi8(static_cast<char>(kMost))) == 0;
}

// The bf16 of every e2m1 code times 2^96, twice; -0 is +0.
alignas(64) inline constexpr std::array<std::uint16_t, 32> kTileE2m1 = [] {
  std::array<std::uint16_t, 32> table = kE2m1Bf16;
  for (std::size_t i = 0; i < table.size(); ++i) {
    table[i] = i % 8 == 0 ? std::uint16_t{0} : static_cast<std::uint16_t>(table[i] + (kTableExponent << 7));
  }
  return table;
}();

// The same of e4m3 magnitudes, as E4m3Tables has them.
struct TileE4m3Tables : E4m3Tables {
  constexpr TileE4m3Tables() {
    for (int code = 1; code < 0x7F; ++code) {
      const int bits = (high[code] << 8 | low[code]) + (kTableExponent << 7);
      high[code] = static_cast<std::uint8_t>(bits >> 8);
      low[code] = static_cast<std::uint8_t>(bits & 0xFF);
    }
  }
};
inline constexpr TileE4m3Tables kTileE4m3;

// Two vectors of f32, which are bf16 values, as pairs.
SLUICE_VEC __m512i pairs_of(F32x16 even, F32x16 odd) {
  return _mm512_mask_mov_epi16(as_bits(odd).v, 0x55555555U, _mm512_srli_epi32(as_bits(even).v, 16));
}

// A line's pairs by way of f32: kInputs / 2 lines of a tile, to `to`.
template <class Format>
[[gnu::noinline]] void scaled_lines(const Format& format, const std::byte* line, const std::byte* scales,
                                    std::byte* to) {
  const F32x16 scale = ScaledE8m0<F32x16>::load(scales);
  const auto weights = format.load(line, nullptr);
  unroll<Format::kInputs / 2>([&]<int P>() __attribute__((always_inline)) {
    F32x16 even, odd;
    format.template pair<P>(weights, even, odd);
    _mm512_store_si512(to + P * kTileLine, pairs_of(even * scale, odd * scale));
  });
}

class TileMxfp4 {
 public:
  using Format = Mxfp4Weights;
  static constexpr bool kScaled = true;
  SLUICE_VEC void decode(const std::byte* line, const TileScales& scales, std::byte* to) const {
    const __m512i codes = _mm512_loadu_si512(line);
    unroll<4>([&]<int P>() __attribute__((always_inline)) {
      const __m512i values = _mm512_maskz_permutexvar_epi16(scales.some, _mm512_srli_epi16(codes, 4 * P), values_);
      _mm512_store_si512(to + P * kTileLine, _mm512_subs_epu16(values, scales.by));
    });
  }

 private:
  __m512i values_ = _mm512_load_si512(kTileE2m1.data());
};

class TileFp8 {
 public:
  using Format = Fp8Weights<ScaledE8m0<F32x16>, Fp8Decoder, LinearIsa::kFp8Rows>;
  static constexpr bool kScaled = true;
  SLUICE_VEC void decode(const std::byte* line, const TileScales& scales, std::byte* to) const {
    __m512i codes = _mm512_loadu_si512(line);
    asm("" : "+v"(codes));
    const __m512i high = _mm512_permutex2var_epi8(high_[0], codes, high_[1]);
    const __m512i low = _mm512_permutex2var_epi8(low_[0], codes, low_[1]);
    const __m512i zero = _mm512_setzero_si512();
    _mm512_store_si512(to, scaled(_mm512_unpacklo_epi8(low, high), _mm512_unpacklo_epi8(zero, codes), scales));
    _mm512_store_si512(to + kTileLine,
                       scaled(_mm512_unpackhi_epi8(low, high), _mm512_unpackhi_epi8(zero, codes), scales));
  }

 private:
  SLUICE_VEC static __m512i scaled(__m512i magnitudes, __m512i codes, const TileScales& scales) {
    constexpr int kSign = static_cast<int>(0x80008000U), kNan = 0x7FC07FC0;
    const __mmask32 nan = _mm512_cmpeq_epi16_mask(magnitudes, _mm512_set1_epi32(kNan));
    __m512i less = _mm512_maskz_subs_epu16(scales.some, magnitudes, scales.by);
    less = _mm512_mask_mov_epi16(less, nan, magnitudes);
    return _mm512_ternarylogic_epi32(less, codes, _mm512_set1_epi32(kSign), 0xF8);  // less | (codes & sign)
  }

  __m512i high_[2]{_mm512_load_si512(kTileE4m3.high), _mm512_load_si512(kTileE4m3.high + 64)};
  __m512i low_[2]{_mm512_load_si512(kTileE4m3.low), _mm512_load_si512(kTileE4m3.low + 64)};
};

// Without scales in the weights.
struct TileFp8F32 : Fp8Weights<ScaledF32<F32x16>, Fp8Decoder, LinearIsa::kFp8Rows> {
  using Format = Fp8Weights<ScaledF32<F32x16>, Fp8Decoder, LinearIsa::kFp8Rows>;
  static constexpr bool kScaled = false;
  SLUICE_VEC void decode(const std::byte* line, std::byte* to) const {
    const Line weights = load(line, nullptr);
    _mm512_store_si512(to, bf16_pair<0>(weights).v);
    _mm512_store_si512(to + kTileLine, bf16_pair<1>(weights).v);
  }
};

struct TileBf16 {
  using Format = Bf16Weights<F32x16, LinearIsa::kBf16Rows>;
  static constexpr bool kScaled = false;
  SLUICE_VEC void decode(const std::byte* line, std::byte* to) const {
    _mm512_store_si512(to, _mm512_loadu_si512(line));
  }
};

// Of kGroups groups of a tile from `group` on: slices one after the other, [group][line] of each.
template <class Weights, int kGroups>
class TileDecoder {
  using Format = typename Weights::Format;
  static constexpr int kLines = kSliceInputs / Format::kInputs;
  static constexpr std::size_t kScale = kGroupOutputs * Format::kScaleBytes;

 public:
  SLUICE_VEC TileDecoder(const LinearTile& tile, int group)
      : tile_(tile), group_(group), step_bytes_(static_cast<std::size_t>(tile.groups) * Format::kLineBytes) {}

  // Slice `slice`, to kGroups KB at `to`.
  SLUICE_VEC void decode(int slice, std::byte* to) const {
    const int block = slice * kSliceInputs / tile_.block, first = slice * kSliceInputs - block * tile_.block;
    const int left = std::min(tile_.block, tile_.in - block * tile_.block) - first;
    const std::byte* lines = tile_.lines(block) + static_cast<std::size_t>(first / Format::kInputs) * step_bytes_ +
                             static_cast<std::size_t>(group_) * Format::kLineBytes;
    const std::byte* scales = tile_.scales(block) + static_cast<std::size_t>(group_) * kScale;
    if (left < kSliceInputs || (Weights::kScaled && !scales_are_usual(scales, kGroups * kGroupOutputs))) {
      return decode_unusual(lines, scales, left, to);
    }
    for (int g = 0; g < kGroups; ++g, to += kTileBytes) {
      const std::byte* line = lines + static_cast<std::size_t>(g) * Format::kLineBytes;
      if constexpr (Weights::kScaled) {
        const TileScales scale(scales + static_cast<std::size_t>(g) * kScale);
#pragma GCC unroll 2
        for (int l = 0; l < kLines; ++l) {
          prefetch_lines(line + l * step_bytes_);
          weights_.decode(line + l * step_bytes_, scale, to + l * kTileLine * (Format::kInputs / 2));
        }
      } else {
#pragma GCC unroll 2
        for (int l = 0; l < kLines; ++l) {
          prefetch_lines(line + l * step_bytes_);
          weights_.decode(line + l * step_bytes_, to + l * kTileLine * (Format::kInputs / 2));
        }
      }
    }
  }

 private:
  // The end of a row, of `left` inputs, or scales by way of f32.
  [[gnu::noinline]] void decode_unusual(const std::byte* lines, const std::byte* scales, int left,
                                        std::byte* to) const {
    const int count = std::min(kLines, (left + Format::kInputs - 1) / Format::kInputs);
    for (int g = 0; g < kGroups; ++g, to += kTileBytes) {
      const std::byte* line = lines + static_cast<std::size_t>(g) * Format::kLineBytes;
      std::memset(to, 0, kTileBytes);
      for (int l = 0; l < count; ++l, line += step_bytes_) {
        std::byte* at = to + l * kTileLine * (Format::kInputs / 2);
        if constexpr (Weights::kScaled) {
          scaled_lines(Format(), line, scales + static_cast<std::size_t>(g) * kScale, at);
        } else {
          weights_.decode(line, at);
        }
      }
    }
  }

  const Weights weights_{};
  const LinearTile& tile_;
  const int group_;
  const std::size_t step_bytes_;
};

}  // namespace sluice::cpu::SLUICE_ISA
