// The decoder of FP8 weights for this target and those above it: lines in Fp8Order::kPairs.
// Used by fp8_cells.h, kernels/cpu/avx512_bf16/bf16_linear.cc and tile_weights.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/avx512/vec.h"
#include "kernels/cpu/linear/linear_formats.h"

namespace sluice::cpu::SLUICE_ISA {

// The high and the low byte of the bf16 value of every e4m3 magnitude, by code.
struct E4m3Tables {
  constexpr E4m3Tables() {
    for (int code = 0; code < 128; ++code) {
      const int exponent = code >> 3;
      int mantissa = code & 7;
      int bits = 0;
      if (code == 0x7F) {
        bits = 0x7FC0;
      } else if (exponent > 0) {
        bits = ((exponent + 120) << 7) | (mantissa << 4);
      } else if (mantissa > 0) {  // a subnormal number, mantissa * 2^-9
        int e = 127 - 9 + 2;
        for (; mantissa < 4; mantissa <<= 1) --e;
        bits = (e << 7) | ((mantissa & 3) << 5);
      }
      high[code] = static_cast<std::uint8_t>(bits >> 8);
      low[code] = static_cast<std::uint8_t>(bits & 0xFF);
    }
  }
  alignas(64) std::uint8_t high[128]{};
  alignas(64) std::uint8_t low[128]{};
};
inline constexpr E4m3Tables kE4m3;

// Interleaving low and high bytes gives pairs of bf16, an output in each dword.
class Fp8Decoder {
 public:
  struct Line {
    __m512i high, low;  // the bytes of the bf16 values
  };
  SLUICE_VEC Line load(const std::byte* line) const {
    __m512i codes = _mm512_loadu_si512(line);
    // The permutations overwrite their codes: a copy of a register costs less than two more loads.
    asm("" : "+v"(codes));
    // The permutation reads the low 7 bits of a code; bit 7, the sign, is or-ed in: high | (code & 0x80).
    const __m512i high = _mm512_ternarylogic_epi32(_mm512_permutex2var_epi8(high_[0], codes, high_[1]), codes,
                                                   _mm512_set1_epi8(static_cast<char>(0x80)), 0xF8);
    return {high, _mm512_permutex2var_epi8(low_[0], codes, low_[1])};
  }
  // Gives bf16, with the odd input in the high half of each dword.
  template <int P>
  SLUICE_VEC I32x16 bf16_pair(const Line& line) const {
    return {P == 0 ? _mm512_unpacklo_epi8(line.low, line.high) : _mm512_unpackhi_epi8(line.low, line.high)};
  }
  template <int P>
  SLUICE_VEC void pair(const Line& line, F32x16& even, F32x16& odd) const {
    split_bf16_pairs(bf16_pair<P>(line), even, odd);
  }

 private:
  __m512i high_[2]{_mm512_load_si512(kE4m3.high), _mm512_load_si512(kE4m3.high + 64)};
  __m512i low_[2]{_mm512_load_si512(kE4m3.low), _mm512_load_si512(kE4m3.low + 64)};
};

}  // namespace sluice::cpu::SLUICE_ISA
