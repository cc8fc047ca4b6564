// What the AVX-512 kernels of integer products share: lines of weights as unsigned bytes, and the parts of
// cpu/linear_int8.h's Int8 that do not depend on the instruction that multiplies them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/avx512/vec.h"

namespace sluice::cpu::SLUICE_ISA {

struct LineBytes {
  using Bytes = __m512i;
  SLUICE_VEC static Bytes load_bytes(const std::byte* p) { return _mm512_loadu_si512(p); }
  SLUICE_VEC static void store(Bytes v, std::byte* p) { _mm512_storeu_si512(p, v); }
  SLUICE_VEC static __m512i broadcast(const std::int8_t* codes) {
    std::int32_t four;
    std::memcpy(&four, codes, 4);
    return _mm512_set1_epi32(four);
  }
};

struct Nibbles : LineBytes {
  SLUICE_VEC static Bytes load(const std::byte* line) { return load_bytes(line); }
  SLUICE_VEC static Bytes low(Bytes line) { return _mm512_and_si512(line, _mm512_set1_epi8(15)); }
  SLUICE_VEC static Bytes high(Bytes line) { return low(_mm512_srli_epi16(line, 4)); }
};

struct WholeBytes : LineBytes {
  SLUICE_VEC static const std::byte* load(const std::byte* line) { return line; }
  SLUICE_VEC static Bytes low(const std::byte* line) { return load_bytes(line); }
  SLUICE_VEC static Bytes high(const std::byte* line) { return load_bytes(line + 64); }
};

// A line of MXFP4 as 2 e2m1 + 12: low() the inputs 0 4 1 5, high() 2 6 3 7 (cpu/linear_layout.h).
class E2m1Bytes : public LineBytes {
 public:
  SLUICE_VEC static Bytes load(const std::byte* line) { return load_bytes(line); }
  SLUICE_VEC Bytes low(Bytes line) const { return _mm512_shuffle_epi8(values_, Nibbles::low(line)); }
  SLUICE_VEC Bytes high(Bytes line) const { return _mm512_shuffle_epi8(values_, Nibbles::high(line)); }

 private:
  __m512i values_ = _mm512_broadcast_i32x4(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
};

// The sums of two pairs of products; a pair must fit 16 bits.
SLUICE_VEC __m512i dot_of_pairs(__m512i positive, __m512i x) {
  return _mm512_madd_epi16(_mm512_maddubs_epi16(positive, x), _mm512_set1_epi16(1));
}

// For bytes up to 128: two of them times codes up to 127 do not saturate.
template <class Values>
struct PairsOf : Values {
  SLUICE_VEC static I32x16 add_dot(I32x16 acc, typename Values::Bytes weights, __m512i x) {
    return acc + I32x16{dot_of_pairs(weights, x)};
  }
};

}  // namespace sluice::cpu::SLUICE_ISA
