// Weights as AMX tiles: for a slice of 32 inputs and a group of 16 outputs there are 16 lines. Each line has the bf16
// of two inputs, an output in each dword. Values are scaled, unless the scales are f32.
//
// A scale of e8m0 is a power of two. The tables hold values times 2^96, and a saturating subtraction takes (96 - its
// exponent) off the exponents. It leaves zero as it is, and makes a value that is too small a denormal, which counts as
// zero. Scales above 2^96, and NaN, go by way of f32.
// Used by column_tiles.h, kernels/cpu/linear/linear_tile_row.isa.cc and kernels/cpu/linear/linear_tiles.isa.cc.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/avx512/linear_formats.h"
#include "kernels/cpu/avx512vbmi/fp8_decoder.h"
#include "kernels/cpu/linear/linear_tile.h"
#include "kernels/weights/tile_inputs.h"

namespace sluice::cpu::SLUICE_ISA {

inline constexpr int kTableExponent = 96;

// Scales that the tables serve: of 2^96 at most.
inline constexpr int kMostTableScale = 127 + kTableExponent;

// Returns the amount that a scale of e8m0 takes off each bf16 of the tables. For 2^-127, which counts as 0, it takes
// everything off.
constexpr int table_excess(int code) {
  return code == 0 ? 0xFFFF : (kMostTableScale - code) << 7;
}

// The bf16 of every e2m1 code times 2^96, twice; -0 is stored as +0.
alignas(64) inline constexpr std::array<std::uint16_t, 32> kTileE2m1 = [] {
  std::array<std::uint16_t, 32> table = kE2m1Bf16;
  for (std::size_t i = 0; i < table.size(); ++i) {
    table[i] = i % 8 == 0 ? std::uint16_t{0} : static_cast<std::uint16_t>(table[i] + (kTableExponent << 7));
  }
  return table;
}();

// The bf16 of e4m3 magnitudes times 2^96, in the layout of E4m3Tables.
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

// Returns pairs of bf16 from two vectors of f32 that hold bf16 values.
SLUICE_VEC __m512i pairs_of(F32x16 even, F32x16 odd) {
  return _mm512_mask_mov_epi16(as_bits(odd).v, 0x55555555U, _mm512_srli_epi32(as_bits(even).v, 16));
}

// Writes a line's pairs by way of f32: kInputs / 2 lines of a tile, to `to`.
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

// The scales of a weight's format, here and below: whether the tables serve the scales of `groups` groups, and the
// scales for decode() of a line of group g.
inline constexpr int kMostDecoded = 4;  // groups decoded at once

class TileMxfp4 {
 public:
  using Format = Mxfp4Weights;
  struct Scales {
    __m512i excess[kMostDecoded];  // amounts taken off each bf16
  };
  static constexpr bool kScaled = true;
  SLUICE_VEC static bool usual(const std::byte* scales, int groups) {
    __mmask16 more = 0;
    for (int g = 0; g < groups; ++g) {
      const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(scales + g * kGroupOutputs));
      more |= _mm_cmpgt_epu8_mask(codes, _mm_set1_epi8(static_cast<char>(kMostTableScale)));
    }
    return more == 0;
  }
  SLUICE_VEC void load(const std::byte* scales, int groups, Scales& to) const {
    for (int g = 0; g < groups; ++g) {
      const __m512i code = I32x16::load_bytes(scales + g * kGroupOutputs).v;
      const __m512i less = _mm512_slli_epi32(_mm512_sub_epi32(_mm512_set1_epi32(kMostTableScale), code), 7);
      const __mmask16 nothing = _mm512_testn_epi32_mask(code, code);
      to.excess[g] = _mm512_mask_set1_epi32(_mm512_or_si512(less, _mm512_slli_epi32(less, 16)), nothing, -1);
    }
  }
  SLUICE_VEC void decode(const std::byte* line, const Scales& scales, int g, std::byte* to) const {
    const __m512i codes = _mm512_loadu_si512(line), excess = scales.excess[g];
    unroll<4>([&]<int P>() __attribute__((always_inline)) {
      const __m512i values = _mm512_permutexvar_epi16(_mm512_srli_epi16(codes, 4 * P), values_);
      _mm512_store_si512(to + P * kTileLine, _mm512_subs_epu16(values, excess));
    });
  }

 private:
  __m512i values_ = _mm512_load_si512(kTileE2m1.data());
};

// For outputs that share a scale, as 128 do in checkpoints: the tables are made for it whenever it changes. If the
// groups decoded at once have different scales, they go by way of f32.
class TileFp8 {
 public:
  using Format = Fp8Weights<ScaledE8m0<F32x16>, Fp8Decoder, LinearIsa::kFp8Rows>;
  struct Scales {};
  static constexpr bool kScaled = true;
  SLUICE_VEC static bool usual(const std::byte* scales, int groups) {
    const auto first = static_cast<int>(scales[0]);
    __mmask16 others = 0;
    for (int g = 0; g < groups; ++g) {
      const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(scales + g * kGroupOutputs));
      others |= _mm_cmpneq_epi8_mask(codes, _mm_set1_epi8(static_cast<char>(first)));
    }
    return first <= kMostTableScale && others == 0;
  }
  SLUICE_VEC void load(const std::byte* scales, int, Scales&) {
    const auto code = static_cast<int>(scales[0]);
    if (code != code_) make_tables(code);
  }
  SLUICE_VEC void decode(const std::byte* line, const Scales&, int, std::byte* to) const {
    __m512i codes = _mm512_loadu_si512(line);
    asm("" : "+v"(codes));
    const __m512i high = _mm512_ternarylogic_epi32(_mm512_permutex2var_epi8(high_[0], codes, high_[1]), codes,
                                                   _mm512_set1_epi8(static_cast<char>(0x80)), 0xF8);
    const __m512i low = _mm512_permutex2var_epi8(low_[0], codes, low_[1]);
    _mm512_store_si512(to, _mm512_unpacklo_epi8(low, high));
    _mm512_store_si512(to + kTileLine, _mm512_unpackhi_epi8(low, high));
  }

 private:
  [[gnu::noinline]] void make_tables(int code) {
    const __m512i excess = _mm512_set1_epi16(static_cast<short>(table_excess(code)));
    const __m512i low_bytes = _mm512_set1_epi16(0xFF);
    for (int half = 0; half < 2; ++half) {
      const __m512i high = _mm512_load_si512(kTileE4m3.high + 64 * half);
      const __m512i low = _mm512_load_si512(kTileE4m3.low + 64 * half);
      __m512i words[2] = {_mm512_unpacklo_epi8(low, high), _mm512_unpackhi_epi8(low, high)};
      for (__m512i& w : words) {
        const __mmask32 number = _mm512_cmpneq_epi16_mask(w, _mm512_set1_epi16(0x7FC0));
        w = _mm512_mask_subs_epu16(w, number, w, excess);
      }
      high_[half] = _mm512_packus_epi16(_mm512_srli_epi16(words[0], 8), _mm512_srli_epi16(words[1], 8));
      low_[half] = _mm512_packus_epi16(_mm512_and_si512(words[0], low_bytes), _mm512_and_si512(words[1], low_bytes));
    }
    code_ = code;
  }

  int code_ = -1;             // the code of the scale that is multiplied into the tables
  __m512i high_[2], low_[2];  // the bytes of every magnitude's bf16 times the scale
};

struct TileUnscaled {
  struct Scales {};
  static constexpr bool kScaled = false;
  SLUICE_VEC static bool usual(const std::byte*, int) { return true; }
  SLUICE_VEC static void load(const std::byte*, int, Scales&) {}
};

// FP8 whose weights are decoded without scales.
struct TileFp8F32 : Fp8Weights<ScaledF32<F32x16>, Fp8Decoder, LinearIsa::kFp8Rows>, TileUnscaled {
  using Format = Fp8Weights<ScaledF32<F32x16>, Fp8Decoder, LinearIsa::kFp8Rows>;
  using TileUnscaled::load;
  SLUICE_VEC void decode(const std::byte* line, Scales, int, std::byte* to) const {
    const Line weights = Format::load(line, nullptr);
    _mm512_store_si512(to, bf16_pair<0>(weights).v);
    _mm512_store_si512(to + kTileLine, bf16_pair<1>(weights).v);
  }
};

struct TileBf16 : TileUnscaled {
  using Format = Bf16Weights<F32x16, LinearIsa::kBf16Rows>;
  SLUICE_VEC void decode(const std::byte* line, Scales, int, std::byte* to) const {
    _mm512_store_si512(to, _mm512_loadu_si512(line));
  }
};

// `groups` groups of a tile from `group` on, kMostDecoded at most. Their tiles of a slice are decoded at a time, next
// to each other as their lines are, whole or in kDecodeParts parts.
inline constexpr int kDecodeParts = 4;
template <class Weights>
class TileDecoder {
  using Format = typename Weights::Format;
  static constexpr int kLines = kSliceInputs / Format::kInputs;
  static constexpr std::size_t kLineBytes = kTileLine * (Format::kInputs / 2);  // the bytes of a line, decoded
  static constexpr int kAhead = kLines > 4 ? 6144 : 3072;  // weights are prefetched this many bytes ahead

 public:
  TileDecoder(const LinearTile& tile, int group, int groups)
      : tile_(&tile),
        group_(group),
        groups_(groups),
        step_bytes_(static_cast<std::size_t>(tile.groups) * Format::kLineBytes) {}
  int groups() const { return groups_; }

  // Decodes slice `slice` and writes its tiles to `to`.
  [[gnu::noinline]] void decode(int slice, std::byte* to) { lines<kLines>(slice, 0, to); }
  [[gnu::noinline]] void decode_part(int slice, int part, std::byte* to) {
    lines<kLines / kDecodeParts>(slice, part * (kLines / kDecodeParts), to);
  }

 private:
  template <int kCount>
  [[gnu::always_inline]] void lines(int slice, int first_line, std::byte* to) {
    const int block = slice * kSliceInputs / tile_->block, first = slice * kSliceInputs - block * tile_->block;
    const int left = std::min(tile_->block, tile_->in - block * tile_->block) - first;
    const auto group = static_cast<std::size_t>(group_);
    const std::byte* line = tile_->lines(block) + static_cast<std::size_t>(first / Format::kInputs) * step_bytes_ +
                            group * Format::kLineBytes;
    const std::byte* scales = tile_->scales(block) + group * kGroupOutputs * Format::kScaleBytes;
    if (left < kSliceInputs || !Weights::usual(scales, groups_)) [[unlikely]] {
      if (first_line == 0) unusual(line, scales, left, to);
      return;
    }
    typename Weights::Scales of_groups;
    weights_.load(scales, groups_, of_groups);
    line += static_cast<std::size_t>(first_line) * step_bytes_;
    to += static_cast<std::size_t>(first_line) * kLineBytes;
    for (int l = 0; l < kCount; ++l, line += step_bytes_, to += kLineBytes) {
      for (int g = 0; g < groups_; ++g) {
        const std::byte* from = line + static_cast<std::size_t>(g) * Format::kLineBytes;
        __builtin_prefetch(from + kAhead, 0, 2);
        __builtin_prefetch(from + kAhead / 4, 0, 3);
        weights_.decode(from, of_groups, g, to + static_cast<std::size_t>(g) * kTileBytes);
      }
    }
  }

  // Decodes the end of a row, of `left` inputs, or lines whose scales go by way of f32.
  [[gnu::noinline]] void unusual(const std::byte* lines, const std::byte* scales, int left, std::byte* to) {
    const int count = std::min(kLines, (left + Format::kInputs - 1) / Format::kInputs);
    for (int g = 0; g < groups_;
         ++g, lines += Format::kLineBytes, scales += kGroupOutputs * Format::kScaleBytes, to += kTileBytes) {
      std::memset(to, 0, kTileBytes);
      for (int l = 0; l < count; ++l) {
        const std::byte* line = lines + static_cast<std::size_t>(l) * step_bytes_;
        std::byte* at = to + static_cast<std::size_t>(l) * kLineBytes;
        if constexpr (Weights::kScaled) {
          scaled_lines(Format(), line, scales, at);
        } else {
          weights_.decode(line, {}, g, at);
        }
      }
    }
  }

  Weights weights_;
  const LinearTile* tile_;
  int group_, groups_;
  std::size_t step_bytes_;
};

}  // namespace sluice::cpu::SLUICE_ISA
