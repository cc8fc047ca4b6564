// Lines of weights as unsigned bytes, and the parts of kernels/cpu/linear/linear_int8.h's Int8 that do not depend on
// the instruction that multiplies them. The AVX2 kernels of integer products share them.
// Used by int8_dot.h and kernels/cpu/avx2_vnni/int8_dot.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/avx2/vec.h"

namespace sluice::cpu::SLUICE_ISA {

// A line of MXFP4 as 2 e2m1 + 12, and one of numbers of codes (kernels/cpu/linear/linear_codes.h) as code + kOffset.
struct E2m1Table {
  SLUICE_VEC static __m128i bytes() { return _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0); }
};
template <class Form, int kOffset>
struct LevelTable {
  SLUICE_VEC static __m128i bytes() { return _mm_load_si128(reinterpret_cast<const __m128i*>(kBytes.data())); }
  alignas(16) static constexpr std::array<std::uint8_t, 16> kBytes = [] {
    std::array<std::uint8_t, 16> bytes{};
    for (int i = 0; i < 16; ++i)
      bytes[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(Form::level(i) + kOffset);
    return bytes;
  }();
};

struct LineBytes {
  struct Bytes {
    __m256i lo, hi;
  };
  SLUICE_VEC static Bytes load_bytes(const std::byte* p) {
    const auto* from = reinterpret_cast<const __m256i*>(p);
    return {_mm256_loadu_si256(from), _mm256_loadu_si256(from + 1)};
  }
  SLUICE_VEC static void store(Bytes v, std::byte* p) {
    auto* to = reinterpret_cast<__m256i*>(p);
    _mm256_storeu_si256(to, v.lo);
    _mm256_storeu_si256(to + 1, v.hi);
  }
  SLUICE_VEC static __m256i broadcast(const std::int8_t* codes) {
    std::int32_t four;
    std::memcpy(&four, codes, 4);
    return _mm256_set1_epi32(four);
  }
};

struct Nibbles : LineBytes {
  SLUICE_VEC static Bytes load(const std::byte* line) { return load_bytes(line); }
  SLUICE_VEC static Bytes low(Bytes line) {
    const __m256i mask = _mm256_set1_epi8(15);
    return {_mm256_and_si256(line.lo, mask), _mm256_and_si256(line.hi, mask)};
  }
  SLUICE_VEC static Bytes high(Bytes line) {
    return low({_mm256_srli_epi16(line.lo, 4), _mm256_srli_epi16(line.hi, 4)});
  }
};

// The bytes of a line whose nibbles are numbers: nibble n stands for byte n of Table::bytes(), which has sixteen.
template <class Table>
class NumberedBytes : public LineBytes {
 public:
  SLUICE_VEC static Bytes load(const std::byte* line) { return load_bytes(line); }
  SLUICE_VEC Bytes low(Bytes line) const { return look_up(Nibbles::low(line)); }
  SLUICE_VEC Bytes high(Bytes line) const { return look_up(Nibbles::high(line)); }

 private:
  SLUICE_VEC Bytes look_up(Bytes codes) const {
    return {_mm256_shuffle_epi8(values_, codes.lo), _mm256_shuffle_epi8(values_, codes.hi)};
  }
  __m256i values_ = _mm256_broadcastsi128_si256(Table::bytes());
};
using E2m1Bytes = NumberedBytes<E2m1Table>;
template <class Form, int kOffset>
using LevelBytes = NumberedBytes<LevelTable<Form, kOffset>>;

// Returns the sums of four products each, added in pairs; the sum of a pair must fit 16 bits.
SLUICE_VEC __m256i dot_of_pairs(__m256i positive, __m256i x) {
  return _mm256_madd_epi16(_mm256_maddubs_epi16(positive, x), _mm256_set1_epi16(1));
}

// Products of unsigned bytes up to 128: the sum of two of them times codes up to 127 does not saturate 16 bits.
template <class Values>
struct PairsOf : Values {
  SLUICE_VEC static I32x16 add_dot(I32x16 acc, typename Values::Bytes weights, __m256i x) {
    return acc + I32x16{dot_of_pairs(weights.lo, x), dot_of_pairs(weights.hi, x)};
  }
};

}  // namespace sluice::cpu::SLUICE_ISA
