// Values of cached rows in FP8 under a power of two, as bf16.
// Used by column_tiles.h and kernels/cpu/avx512_bf16/bf16_attend.cc.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/avx512vbmi/fp8_decoder.h"
#include "kernels/ops/row_codec.h"

namespace sluice::cpu::SLUICE_ISA {

// The index, among 64 values, that byte i of two lines stands for: the first line has those of lower halves of each 16
// bytes.
using Fp8CellOrder = std::array<std::uint8_t, 64>;
// The order of lines of dims: 0 to 31, then 32 to 63.
inline constexpr Fp8CellOrder kFp8InOrder = [] {
  Fp8CellOrder order{};
  for (unsigned i = 0; i < 64; ++i) order[i] = static_cast<std::uint8_t>(32 * (i % 16 / 8) + 8 * (i / 16) + i % 8);
  return order;
}();
// The order of attention's cells: dims d and d + 16 of the first 32 dims, then of the others.
inline constexpr Fp8CellOrder kFp8InCells = [] {
  Fp8CellOrder order{};
  for (unsigned i = 0; i < 64; ++i) {
    order[i] = static_cast<std::uint8_t>(32 * (i % 16 / 8) + 16 * (i % 2) + 4 * (i / 16) + i % 8 / 2);
  }
  return order;
}();

// Turns 64 e4m3 codes that are numbers, and the exponent of their scale, into two lines of bf16. The upper and the
// lower byte of each magnitude's bf16 come from one permutation of 128 bytes each; then the exponents are added.
template <const Fp8CellOrder& kOrder>
class Fp8Cells {
 public:
  static constexpr int kLeastExponent = 16, kMostExponent = 240;  // the scales whose values are normal numbers

  SLUICE_VEC void decode(const std::byte* codes, int exponent, __m512i (&to)[2]) const {
    const __m512i c = _mm512_permutexvar_epi8(order_, _mm512_loadu_si512(codes));
    const __m512i low = _mm512_permutex2var_epi8(low_[0], c, low_[1]);
    const __m512i magnitude = _mm512_permutex2var_epi8(high_[0], c, high_[1]);
    const __m512i high = _mm512_or_si512(magnitude, _mm512_and_si512(c, _mm512_set1_epi8(static_cast<char>(0x80))));
    const __m512i scale = _mm512_set1_epi16(static_cast<short>((exponent - 127) << 7));
    to[0] = scaled(_mm512_unpacklo_epi8(low, high), scale);
    to[1] = scaled(_mm512_unpackhi_epi8(low, high), scale);
  }

 private:
  // Adds the scale's exponent to each bf16; zeros stay zeros.
  SLUICE_VEC static __m512i scaled(__m512i words, __m512i scale) {
    return _mm512_mask_add_epi16(words, _mm512_test_epi16_mask(words, _mm512_set1_epi16(0x7FFF)), words, scale);
  }
  const __m512i low_[2] = {_mm512_load_si512(kE4m3.low), _mm512_load_si512(kE4m3.low + 64)};
  const __m512i high_[2] = {_mm512_load_si512(kE4m3.high), _mm512_load_si512(kE4m3.high + 64)};
  const __m512i order_ = _mm512_loadu_si512(kOrder.data());
};

// Gives the values of a row in lines of 32: put(line, values) gets those that are codes, in kOrder; put_words(line,
// values) gets those that are bf16, as they lie. Returns false if its shape, a scale or a code needs the general form.
template <const Fp8CellOrder& kOrder, class Put, class PutWords>
SLUICE_VEC bool decode_row_lines(const RowFormat& format, RowRef row, const Put& put, const PutWords& put_words) {
  bool done = false;
  with_row_codec(
      format.codec, [&]<RowCodec kCodec>(std::integral_constant<RowCodec, kCodec>) __attribute__((always_inline)) {
        constexpr RowCodecInfo kInfo = row_codec(kCodec);
        if constexpr (kInfo.values != RowValues::kF32 && kInfo.values != RowValues::kE2m1 && kInfo.block % 64 == 0) {
          const int in_blocks = kInfo.in_blocks(format.dims, format.rope_dims);
          if (in_blocks % 64 != 0 || (format.dims - in_blocks) % 32 != 0) return;
          const Fp8Cells<kOrder> fp8;
          for (int d = 0; d < in_blocks; d += 64) {
            const int block = kInfo.block > 0 ? d / kInfo.block : 0;
            int exponent;  // the exponent of the scale, a power of two
            if constexpr (kInfo.scales == RowScales::kE8m0) {
              exponent = static_cast<int>(row.scales[block]);
            } else {
              std::uint32_t bits;
              __builtin_memcpy(&bits, row.scales + block * 4, sizeof bits);
              exponent = static_cast<int>(bits >> 23);
              if ((bits & 0x7FFFFFU) != 0) return;
            }
            if (exponent < fp8.kLeastExponent || exponent > fp8.kMostExponent || F32x16::has_e4m3_nan(row.data + d))
              return;
            __m512i lines[2];
            fp8.decode(row.data + d, exponent, lines);
            put(d / 32, lines[0]);
            put(d / 32 + 1, lines[1]);
          }
          for (int d = in_blocks; d < format.dims; d += 32) {
            put_words(d / 32, _mm512_loadu_si512(row.data + in_blocks + 2 * (d - in_blocks)));
          }
          done = true;
        }
      });
  return done;
}

}  // namespace sluice::cpu::SLUICE_ISA
