// Sixteen f32 lanes in two AVX2 registers: the primitives over which cpu/*.h write every algorithm once.
// kernels/cpu/avx512/vec.h has the same names. Everything is inlined, and lives in this ISA's own namespace, so that no
// code compiled for this ISA can be linked into another one's.
// Used by fp8_decoder.h, index_isa.h, int8_values.h and linear_formats.h.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace sluice::cpu::SLUICE_ISA {

#define SLUICE_VEC [[gnu::always_inline]] inline

struct Mask16 {  // each lane has all bits set, or none
  __m256i lo, hi;
};
SLUICE_VEC Mask16 operator&(Mask16 a, Mask16 b) {
  return {_mm256_and_si256(a.lo, b.lo), _mm256_and_si256(a.hi, b.hi)};
}
SLUICE_VEC Mask16 operator|(Mask16 a, Mask16 b) {
  return {_mm256_or_si256(a.lo, b.lo), _mm256_or_si256(a.hi, b.hi)};
}
SLUICE_VEC unsigned bits(Mask16 a) {
  return static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(a.lo))) |
         static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(a.hi))) << 8;
}

struct I32x16 {
  __m256i lo, hi;
  SLUICE_VEC static I32x16 broadcast(std::int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
  SLUICE_VEC static I32x16 iota() {
    return {_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15)};
  }
  SLUICE_VEC static I32x16 load(const std::int32_t* p) {
    return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
            _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 8))};
  }
  SLUICE_VEC static I32x16 load_bytes(const std::byte* p) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return {_mm256_cvtepu8_epi32(bytes), _mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8))};
  }
  SLUICE_VEC static __m256i nibbles(__m128i bytes) {  // the nibbles of four bytes
    const __m256i wide = _mm256_cvtepu8_epi64(bytes);
    return _mm256_and_si256(_mm256_or_si256(wide, _mm256_slli_epi64(wide, 28)), _mm256_set1_epi32(15));
  }
  SLUICE_VEC static I32x16 load_nibbles(const std::byte* p) {  // eight bytes, low nibbles in the even lanes
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
    return {nibbles(bytes), nibbles(_mm_srli_si128(bytes, 4))};
  }
  SLUICE_VEC void store(std::int32_t* p) const {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), lo);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 8), hi);
  }
  SLUICE_VEC static __m256i low_words(I32x16 a) {  // the low 16 bits of each lane
    const __m256i mask = _mm256_set1_epi32(0xFFFF);
    const __m256i words = _mm256_packus_epi32(_mm256_and_si256(a.lo, mask), _mm256_and_si256(a.hi, mask));
    return _mm256_permute4x64_epi64(words, 0xD8);
  }
  SLUICE_VEC void store_words(std::byte* p) const {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), low_words(*this));
  }
  SLUICE_VEC __m128i low_bytes() const {  // each lane's low byte
    const __m256i words = _mm256_and_si256(low_words(*this), _mm256_set1_epi16(0xFF));
    return _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  }
  SLUICE_VEC void store_bytes(std::byte* p) const { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), low_bytes()); }
};
SLUICE_VEC I32x16 operator+(I32x16 a, I32x16 b) {
  return {_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)};
}
SLUICE_VEC I32x16 operator-(I32x16 a, I32x16 b) {
  return {_mm256_sub_epi32(a.lo, b.lo), _mm256_sub_epi32(a.hi, b.hi)};
}
SLUICE_VEC I32x16 operator&(I32x16 a, I32x16 b) {
  return {_mm256_and_si256(a.lo, b.lo), _mm256_and_si256(a.hi, b.hi)};
}
SLUICE_VEC I32x16 operator|(I32x16 a, I32x16 b) {
  return {_mm256_or_si256(a.lo, b.lo), _mm256_or_si256(a.hi, b.hi)};
}
SLUICE_VEC I32x16 operator^(I32x16 a, I32x16 b) {
  return {_mm256_xor_si256(a.lo, b.lo), _mm256_xor_si256(a.hi, b.hi)};
}
template <int N>
SLUICE_VEC I32x16 shift_left(I32x16 a) {
  return {_mm256_slli_epi32(a.lo, N), _mm256_slli_epi32(a.hi, N)};
}
template <int N>
SLUICE_VEC I32x16 shift_right(I32x16 a) {
  return {_mm256_srli_epi32(a.lo, N), _mm256_srli_epi32(a.hi, N)};
}
template <int N>
SLUICE_VEC I32x16 shift_right_signed(I32x16 a) {
  return {_mm256_srai_epi32(a.lo, N), _mm256_srai_epi32(a.hi, N)};
}
SLUICE_VEC I32x16 max_of(I32x16 a, I32x16 b) {
  return {_mm256_max_epi32(a.lo, b.lo), _mm256_max_epi32(a.hi, b.hi)};
}
SLUICE_VEC std::int32_t max_of_lanes(I32x16 a) {
  const __m256i eight = _mm256_max_epi32(a.lo, a.hi);
  __m128i four = _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4E));
  return _mm_cvtsi128_si32(_mm_max_epi32(four, _mm_shuffle_epi32(four, 0xB1)));
}
SLUICE_VEC I32x16 min_of(I32x16 a, I32x16 b) {
  return {_mm256_min_epi32(a.lo, b.lo), _mm256_min_epi32(a.hi, b.hi)};
}
SLUICE_VEC Mask16 greater(I32x16 a, I32x16 b) {
  return {_mm256_cmpgt_epi32(a.lo, b.lo), _mm256_cmpgt_epi32(a.hi, b.hi)};
}
SLUICE_VEC Mask16 equal(I32x16 a, I32x16 b) {
  return {_mm256_cmpeq_epi32(a.lo, b.lo), _mm256_cmpeq_epi32(a.hi, b.hi)};
}
SLUICE_VEC I32x16 select(Mask16 m, I32x16 yes, I32x16 no) {
  return {_mm256_blendv_epi8(no.lo, yes.lo, m.lo), _mm256_blendv_epi8(no.hi, yes.hi, m.hi)};
}
// Writes the lanes of `mask`, packed, and anything after them, sixteen lanes at most; returns how many lanes `mask`
// has.
SLUICE_VEC int compress_store(std::int32_t* p, Mask16 mask, I32x16 a) {
  alignas(32) std::int32_t lanes[16];
  a.store(lanes);
  int count = 0;
  for (unsigned left = bits(mask); left != 0; left &= left - 1) p[count++] = lanes[__builtin_ctz(left)];
  return count;
}
SLUICE_VEC Mask16 first_lanes(int n) {
  return greater(I32x16::broadcast(n), I32x16::iota());
}

struct F32x16 {
  using Int = I32x16;
  using Mask = Mask16;
  // Register blocks that fit: heads at once in a dot tile, and heads x 16 dims in a value tile.
  static constexpr int kDotHeads = 1, kValueHeads = 4, kValueVectors = 1;

  __m256 lo, hi;
  SLUICE_VEC static F32x16 zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  SLUICE_VEC static F32x16 broadcast(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
  SLUICE_VEC static F32x16 load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  SLUICE_VEC static F32x16 load_half(const float* p) { return {_mm256_loadu_ps(p), _mm256_setzero_ps()}; }
  SLUICE_VEC static F32x16 load_first(const float* p, int n) {  // lanes n and higher are 0
    const Mask16 m = first_lanes(n);
    return {_mm256_maskload_ps(p, m.lo), _mm256_maskload_ps(p + 8, m.hi)};
  }
  SLUICE_VEC static F32x16 load_bf16(const std::byte* p) {
    const __m128i* half = reinterpret_cast<const __m128i*>(p);
    return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(half)), 16)),
            _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(half + 1)), 16))};
  }
  template <int kOffset>
  SLUICE_VEC static F32x16 nibbles(I32x16 codes);  // the low four bits of each lane less kOffset
  SLUICE_VEC static F32x16 load_f16(const std::byte* p) {
    const auto* half = reinterpret_cast<const __m128i*>(p);
    return {_mm256_cvtph_ps(_mm_loadu_si128(half)), _mm256_cvtph_ps(_mm_loadu_si128(half + 1))};
  }
  // e4m3 codes as value / 256, exactly, by way of f16, whose exponent has one bit more; a NaN code gives +-480 / 256.
  SLUICE_VEC static F32x16 load_e4m3_over_256(const std::byte* p) {
    const __m256i wide = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    const __m256i half = _mm256_and_si256(_mm256_slli_epi16(wide, 7), _mm256_set1_epi16(static_cast<short>(0xBF80)));
    return {_mm256_cvtph_ps(_mm256_castsi256_si128(half)), _mm256_cvtph_ps(_mm256_extracti128_si256(half, 1))};
  }
  SLUICE_VEC void store(float* p) const {
    _mm256_storeu_ps(p, lo);
    _mm256_storeu_ps(p + 8, hi);
  }
  SLUICE_VEC void store_first(float* p, int n) const {
    const Mask16 m = first_lanes(n);
    _mm256_maskstore_ps(p, m.lo, lo);
    _mm256_maskstore_ps(p + 8, m.hi, hi);
  }
  // Returns true if any of 64 e4m3 codes is a NaN.
  SLUICE_VEC static bool has_e4m3_nan(const std::byte* p) {
    const __m256i nan = _mm256_set1_epi8(0x7F);
    const __m256i* block = reinterpret_cast<const __m256i*>(p);
    const __m256i first = _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_loadu_si256(block), nan), nan);
    const __m256i second = _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_loadu_si256(block + 1), nan), nan);
    return _mm256_movemask_epi8(_mm256_or_si256(first, second)) != 0;
  }
  SLUICE_VEC float first_lane() const { return _mm256_cvtss_f32(lo); }
};
SLUICE_VEC F32x16 operator+(F32x16 a, F32x16 b) {
  return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}
SLUICE_VEC F32x16 operator-(F32x16 a, F32x16 b) {
  return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}
SLUICE_VEC F32x16 operator*(F32x16 a, F32x16 b) {
  return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}
SLUICE_VEC F32x16 operator/(F32x16 a, F32x16 b) {
  return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
}
SLUICE_VEC F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
SLUICE_VEC F32x16 fma_minus_even(F32x16 a, F32x16 b, F32x16 c) {  // a b - c in even lanes, a b + c in odd ones
  return {_mm256_fmaddsub_ps(a.lo, b.lo, c.lo), _mm256_fmaddsub_ps(a.hi, b.hi, c.hi)};
}
SLUICE_VEC F32x16 sqrt(F32x16 a) {
  return {_mm256_sqrt_ps(a.lo), _mm256_sqrt_ps(a.hi)};
}
SLUICE_VEC F32x16 max_of(F32x16 a, F32x16 b) {  // a > b ? a : b
  return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
}
SLUICE_VEC F32x16 min_of(F32x16 a, F32x16 b) {  // a < b ? a : b
  return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)};
}
SLUICE_VEC F32x16 round_to_even(F32x16 a) {
  constexpr int kMode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {_mm256_round_ps(a.lo, kMode), _mm256_round_ps(a.hi, kMode)};
}
template <int kPredicate>
SLUICE_VEC Mask16 compare(F32x16 a, F32x16 b) {
  return {_mm256_castps_si256(_mm256_cmp_ps(a.lo, b.lo, kPredicate)),
          _mm256_castps_si256(_mm256_cmp_ps(a.hi, b.hi, kPredicate))};
}
SLUICE_VEC Mask16 greater(F32x16 a, F32x16 b) {
  return compare<_CMP_GT_OQ>(a, b);
}
SLUICE_VEC Mask16 less_equal(F32x16 a, F32x16 b) {
  return compare<_CMP_LE_OQ>(a, b);
}
SLUICE_VEC Mask16 equal(F32x16 a, F32x16 b) {
  return compare<_CMP_EQ_OQ>(a, b);
}
SLUICE_VEC Mask16 is_nan(F32x16 a) {
  return compare<_CMP_UNORD_Q>(a, a);
}
SLUICE_VEC F32x16 select(Mask16 m, F32x16 yes, F32x16 no) {
  return {_mm256_blendv_ps(no.lo, yes.lo, _mm256_castsi256_ps(m.lo)),
          _mm256_blendv_ps(no.hi, yes.hi, _mm256_castsi256_ps(m.hi))};
}
SLUICE_VEC F32x16 as_float(I32x16 a) {
  return {_mm256_castsi256_ps(a.lo), _mm256_castsi256_ps(a.hi)};
}
SLUICE_VEC I32x16 as_bits(F32x16 a) {
  return {_mm256_castps_si256(a.lo), _mm256_castps_si256(a.hi)};
}
SLUICE_VEC F32x16 to_float(I32x16 a) {
  return {_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)};
}
// Returns p * 2^n for integral n, if the result is a normal number. It multiplies by two halves of 2^n, because 2^128
// alone would overflow.
SLUICE_VEC F32x16 times_power_of_two(F32x16 p, F32x16 n) {
  const I32x16 whole{_mm256_cvtps_epi32(n.lo), _mm256_cvtps_epi32(n.hi)};
  const I32x16 half = shift_right_signed<1>(whole), bias = I32x16::broadcast(127);
  return p * as_float(shift_left<23>(half + bias)) * as_float(shift_left<23>(whole - half + bias));
}

// The values of e2m1 codes (0..15).
SLUICE_VEC __m256 e2m1_values(__m256i codes) {
  const __m256 magnitudes = _mm256_setr_ps(0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F);  // the lookup ignores bit 3
  const __m256i sign = _mm256_slli_epi32(_mm256_srli_epi32(codes, 3), 31);
  return _mm256_or_ps(_mm256_permutevar8x32_ps(magnitudes, codes), _mm256_castsi256_ps(sign));
}
SLUICE_VEC F32x16 e2m1_values(I32x16 codes) {
  return {e2m1_values(codes.lo), e2m1_values(codes.hi)};
}
template <int kOffset>
SLUICE_VEC F32x16 F32x16::nibbles(I32x16 codes) {
  return to_float((codes & I32x16::broadcast(15)) - I32x16::broadcast(kOffset));
}
// Lane l gets lane l ^ N.
template <int N>
SLUICE_VEC F32x16 permute_xor(F32x16 a) {
  if constexpr (N == 8) return {a.hi, a.lo};
  if constexpr (N == 4) return {_mm256_permute2f128_ps(a.lo, a.lo, 1), _mm256_permute2f128_ps(a.hi, a.hi, 1)};
  if constexpr (N == 2) return {_mm256_permute_ps(a.lo, 0x4E), _mm256_permute_ps(a.hi, 0x4E)};
  if constexpr (N == 1) return {_mm256_permute_ps(a.lo, 0xB1), _mm256_permute_ps(a.hi, 0xB1)};
}
template <int N>
SLUICE_VEC I32x16 permute_xor(I32x16 a) {
  return as_bits(permute_xor<N>(as_float(a)));
}
SLUICE_VEC F32x16 duplicate_even(F32x16 a) {
  return {_mm256_moveldup_ps(a.lo), _mm256_moveldup_ps(a.hi)};
}
SLUICE_VEC F32x16 duplicate_odd(F32x16 a) {
  return {_mm256_movehdup_ps(a.lo), _mm256_movehdup_ps(a.hi)};
}

// l += l + 8, l += l + 4: four partial sums.
SLUICE_VEC __m128 partial_sums(F32x16 a) {
  const __m256 eight = _mm256_add_ps(a.lo, a.hi);
  return _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
}

// out[h * stride + i] = tree sum of acc[h][i]: the last steps of lanes16 for a tile of products.
template <int H>
SLUICE_VEC void store_tree_sums(const F32x16 (&acc)[H][4], float* out, std::ptrdiff_t stride) {
  for (int h = 0; h < H; ++h) {
    __m128 l0 = partial_sums(acc[h][0]), l1 = partial_sums(acc[h][1]);
    __m128 l2 = partial_sums(acc[h][2]), l3 = partial_sums(acc[h][3]);
    _MM_TRANSPOSE4_PS(l0, l1, l2, l3);
    _mm_storeu_ps(out + h * stride, _mm_add_ps(_mm_add_ps(l0, l2), _mm_add_ps(l1, l3)));
  }
}

}  // namespace sluice::cpu::SLUICE_ISA
