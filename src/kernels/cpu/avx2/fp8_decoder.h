// The decoder of FP8 weights for this target. It reads lines in Fp8Order::kNibbles as bf16, whose two bytes come from
// tables of bytes. It has only additions, shifts and permutations of bytes, so that it runs in parallel with the
// multiply-adds. The NaN codes give 480.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/avx2/vec.h"
#include "kernels/cpu/linear/linear_formats.h"
#include "kernels/cpu/linear/linear_layout.h"

namespace sluice::cpu::SLUICE_ISA {

// For a normal number, the high byte of its bf16 is the entry of the high nibble, and the low byte is the low nibble
// and zeros. A subnormal one, mantissa * 2^-9, differs from that in the bits of `high_fix` and `low_fix`, which begin
// with eight zeros for the normal numbers below 24.
struct Fp8NibbleTables {
  constexpr Fp8NibbleTables() {
    for (int i = 0; i < 16; ++i) high[i] = static_cast<std::uint8_t>((0x3C + i / 2) | i % 2 << 7);
    for (int mantissa = 0; mantissa < 8; ++mantissa) {
      int bits = 0;
      if (mantissa > 0) {
        int exponent = 127 - 9 + 3, normal = mantissa;
        for (; normal < 8; normal <<= 1) --exponent;
        bits = exponent << 7 | (normal & 7) << 4;
      }
      const int difference = bits ^ (0x3C00 | mantissa << 4);
      high_fix[8 + mantissa] = static_cast<std::uint8_t>(difference >> 8);
      low_fix[8 + mantissa] = static_cast<std::uint8_t>(difference & 0xFF);
    }
  }
  alignas(16) std::uint8_t high[16]{}, high_fix[16]{}, low_fix[16]{};
};
inline constexpr Fp8NibbleTables kFp8Nibbles;

class Fp8Decoder {
 public:
  using Line = const std::byte*;
  // With this many rows the sums, a pair of weights and an input occupy 15 of 16 registers, so none is left for the
  // decoder's constants.
  static constexpr int kRowsWithoutConstants = 5;
  SLUICE_VEC Line load(const std::byte* line) const { return line; }
  template <int P>
  SLUICE_VEC void pair(Line line, F32x16& even, F32x16& odd) const {
    const __m256i codes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(line + 32 * P));
    const __m256i high_nibbles = _mm256_and_si256(_mm256_srli_epi16(codes, 4), nibble_);
    // The sum is at most 0x7F for codes below 24. For others bit 7 is set, and the look-up gives 0.
    const __m256i small = _mm256_adds_epu8(codes, above_small_);
    const __m256i high =
        _mm256_xor_si256(_mm256_shuffle_epi8(high_, high_nibbles), _mm256_shuffle_epi8(high_fix_, small));
    // In the odd inputs' bytes the low nibble is not 0: it holds bits of the byte before.
    const __m256i low = _mm256_xor_si256(_mm256_slli_epi16(codes, 4), _mm256_shuffle_epi8(low_fix_, small));
    const I32x16 pairs{_mm256_unpacklo_epi8(low, high), _mm256_unpackhi_epi8(low, high)};
    odd = as_float(pairs & I32x16{odd_, odd_});
    even = as_float(shift_left<16>(pairs));
  }

 private:
  SLUICE_VEC static __m256i table(const std::uint8_t (&bytes)[16]) {
    return _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(bytes)));
  }
  __m256i high_ = table(kFp8Nibbles.high), high_fix_ = table(kFp8Nibbles.high_fix);
  __m256i low_fix_ = table(kFp8Nibbles.low_fix);
  __m256i nibble_ = _mm256_set1_epi8(15), above_small_ = _mm256_set1_epi8(0x7F - 23);
  __m256i odd_ = _mm256_set1_epi32(static_cast<std::int32_t>(0xFFF00000U));
};

}  // namespace sluice::cpu::SLUICE_ISA
