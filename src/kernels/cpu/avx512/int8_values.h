// Lines of weights as unsigned bytes, and the parts of kernels/cpu/linear/linear_int8.h's Int8 that do not depend on
// the instruction that multiplies them. The AVX-512 kernels of integer products share them.
// Used by kernels/cpu/avx512, kernels/cpu/avx512_amx and kernels/cpu/avx512_vnni.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/avx512/vec.h"
#include "kernels/cpu/linear/linear_int8.h"

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

// The bytes 2 e2m1 + 12, by code, once in each quarter.
SLUICE_VEC __m512i e2m1_bytes() {
  return _mm512_broadcast_i32x4(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
}
// A line of MXFP4 as 2 e2m1 + 12: low() the inputs 0 4 1 5, high() 2 6 3 7 (kernels/cpu/linear/linear_layout.h).
class E2m1Bytes : public LineBytes {
 public:
  SLUICE_VEC static Bytes load(const std::byte* line) { return load_bytes(line); }
  SLUICE_VEC Bytes low(Bytes line) const { return _mm512_shuffle_epi8(values_, Nibbles::low(line)); }
  SLUICE_VEC Bytes high(Bytes line) const { return _mm512_shuffle_epi8(values_, Nibbles::high(line)); }

 private:
  __m512i values_ = e2m1_bytes();
};

// A line of numbers of codes (kernels/cpu/linear/linear_codes.h) as code + kOffset, in the same places.
template <class Form, int kOffset>
class LevelBytes : public LineBytes {
 public:
  SLUICE_VEC static Bytes load(const std::byte* line) { return load_bytes(line); }
  SLUICE_VEC Bytes low(Bytes line) const { return _mm512_shuffle_epi8(values_, Nibbles::low(line)); }
  SLUICE_VEC Bytes high(Bytes line) const { return _mm512_shuffle_epi8(values_, Nibbles::high(line)); }

 private:
  alignas(16) static constexpr std::array<std::uint8_t, 16> kBytes = [] {
    std::array<std::uint8_t, 16> bytes{};
    for (int i = 0; i < 16; ++i)
      bytes[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(Form::level(i) + kOffset);
    return bytes;
  }();
  __m512i values_ = _mm512_broadcast_i32x4(_mm_load_si128(reinterpret_cast<const __m128i*>(kBytes.data())));
};

// MXFP4's scales: the factors of usual scales (see kLeast) are computed by integer additions.
struct Mxfp4Scales : Mxfp4Int8Scales<F32x16> {
  static constexpr int kLeast = 2, kMost = 232;  // the usual scales: their factors are normal numbers

  // True if the scales of 64 outputs are usual ones.
  SLUICE_VEC static bool are_usual(const std::byte* scales) {
    const __m512i above = _mm512_sub_epi8(_mm512_loadu_si512(scales), _mm512_set1_epi8(kLeast));
    return _mm512_cmpgt_epu8_mask(above, _mm512_set1_epi8(static_cast<char>(kMost - kLeast))) == 0;
  }
  SLUICE_VEC static void load_usual_factors(const std::byte* scales, F32x16 (&factors)[kFactors]) {
    const I32x16 exponent = shift_left<23>(I32x16::load_bytes(scales));
    constexpr int kBias = 127, kHalf = 1;  // the bias of e8m0; minus 1 in the exponent halves the scale
    factors[0] = as_float(exponent - I32x16::broadcast((kBias + kHalf) << 23));
    factors[1] = as_float(exponent + I32x16::broadcast(kQuantizedMagicBits - ((kBias + kHalf) << 23)));
  }
};

// Returns the sums of four products each, added in pairs; the sum of a pair must fit 16 bits.
SLUICE_VEC __m512i dot_of_pairs(__m512i positive, __m512i x) {
  return _mm512_madd_epi16(_mm512_maddubs_epi16(positive, x), _mm512_set1_epi16(1));
}

// Products of unsigned bytes up to 128: the sum of two of them times codes up to 127 does not saturate 16 bits.
template <class Values>
struct PairsOf : Values {
  SLUICE_VEC static I32x16 add_dot(I32x16 acc, typename Values::Bytes weights, __m512i x) {
    return acc + I32x16{dot_of_pairs(weights, x)};
  }
};

}  // namespace sluice::cpu::SLUICE_ISA
