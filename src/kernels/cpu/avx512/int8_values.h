// What the AVX-512 kernels of integer products share: the bytes of e2m1 codes, and the dot of four of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/avx512/vec.h"

namespace sluice::avx512 {

// Of every code, four times: a permutation reads the low 6 bits of a byte.
alignas(64) inline constexpr std::array<std::uint8_t, 64> kE2m1Plus12 = [] {
  constexpr int kDoubled[] = {0, 1, 2, 3, 4, 6, 8, 12};
  std::array<std::uint8_t, 64> table{};
  for (std::size_t i = 0; i < table.size(); ++i) {
    table[i] = static_cast<std::uint8_t>(12 + (i % 16 < 8 ? kDoubled[i % 8] : -kDoubled[i % 8]));
  }
  return table;
}();

// A line of MXFP4 (cpu/linear_layout.h) as the unsigned bytes 2 e2m1 + 12.
class Int8Values {
 public:
  SLUICE_VEC __m512i low(__m512i line) const { return _mm512_permutexvar_epi8(line, values_); }  // inputs 0 4 1 5
  SLUICE_VEC __m512i high(__m512i line) const {                                                  // inputs 2 6 3 7
    return _mm512_permutexvar_epi8(_mm512_srli_epi16(line, 4), values_);
  }

 private:
  __m512i values_ = _mm512_load_si512(kE2m1Plus12.data());
};

// The parts of cpu/linear_int8.inc.h's Int8 that do not depend on how weights are coded.
struct DotBytes {
  using Bytes = __m512i;
  SLUICE_VEC static Bytes load_bytes(const std::byte* p) { return _mm512_loadu_si512(p); }
  SLUICE_VEC static void store(Bytes v, std::byte* p) { _mm512_storeu_si512(p, v); }
  SLUICE_VEC static __m512i broadcast(const std::int8_t* codes) {
    std::int32_t four;
    std::memcpy(&four, codes, 4);
    return _mm512_set1_epi32(four);
  }
  SLUICE_VEC static I32x16 add_dot(I32x16 acc, Bytes weights, __m512i four) {
    return {_mm512_dpbusd_epi32(acc.v, weights, four)};
  }
};

}  // namespace sluice::avx512
