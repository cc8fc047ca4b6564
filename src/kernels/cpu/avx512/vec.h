// Sixteen f32 lanes in one AVX-512 register: the primitives over which cpu/*.h write every algorithm once.
// kernels/cpu/avx2/vec.h has the same names. Everything is inlined, and lives in this ISA's own namespace, so that no
// code compiled for this ISA can be linked into another one's.
// Used by kernels/cpu/avx512, kernels/cpu/avx512_bf16 and kernels/cpu/avx512vbmi.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/avx512/intrinsics.h"

namespace sluice::cpu::SLUICE_ISA {

#define SLUICE_VEC [[gnu::always_inline]] inline

struct Mask16 {
  __mmask16 m;
};
SLUICE_VEC Mask16 operator&(Mask16 a, Mask16 b) {
  return {static_cast<__mmask16>(a.m & b.m)};
}
SLUICE_VEC Mask16 operator|(Mask16 a, Mask16 b) {
  return {static_cast<__mmask16>(a.m | b.m)};
}
SLUICE_VEC unsigned bits(Mask16 a) {
  return a.m;
}

struct I32x16 {
  __m512i v;
  SLUICE_VEC static I32x16 broadcast(std::int32_t x) { return {_mm512_set1_epi32(x)}; }
  SLUICE_VEC static I32x16 iota() { return {_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)}; }
  SLUICE_VEC static I32x16 load(const std::int32_t* p) { return {_mm512_loadu_si512(p)}; }
  SLUICE_VEC static I32x16 load_bytes(const std::byte* p) {
    return {_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
  }
  SLUICE_VEC static I32x16 load_nibbles(const std::byte* p) {  // eight bytes, low nibbles in the even lanes
    const __m512i wide = _mm512_cvtepu8_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
    return {_mm512_and_si512(_mm512_or_si512(wide, _mm512_slli_epi64(wide, 28)), _mm512_set1_epi32(15))};
  }
  SLUICE_VEC void store(std::int32_t* p) const { _mm512_storeu_si512(p, v); }
  SLUICE_VEC __m128i low_bytes() const { return _mm512_cvtepi32_epi8(v); }  // each lane's low byte
  SLUICE_VEC void store_bytes(std::byte* p) const { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), low_bytes()); }
  SLUICE_VEC void store_words(std::byte* p) const {  // the low 16 bits of each lane
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(v));
  }
};
SLUICE_VEC I32x16 operator+(I32x16 a, I32x16 b) {
  return {_mm512_add_epi32(a.v, b.v)};
}
SLUICE_VEC I32x16 operator-(I32x16 a, I32x16 b) {
  return {_mm512_sub_epi32(a.v, b.v)};
}
SLUICE_VEC I32x16 operator&(I32x16 a, I32x16 b) {
  return {_mm512_and_si512(a.v, b.v)};
}
SLUICE_VEC I32x16 operator|(I32x16 a, I32x16 b) {
  return {_mm512_or_si512(a.v, b.v)};
}
SLUICE_VEC I32x16 operator^(I32x16 a, I32x16 b) {
  return {_mm512_xor_si512(a.v, b.v)};
}
template <int N>
SLUICE_VEC I32x16 shift_left(I32x16 a) {
  return {_mm512_slli_epi32(a.v, N)};
}
template <int N>
SLUICE_VEC I32x16 shift_right(I32x16 a) {
  return {_mm512_srli_epi32(a.v, N)};
}
template <int N>
SLUICE_VEC I32x16 shift_right_signed(I32x16 a) {
  return {_mm512_srai_epi32(a.v, N)};
}
SLUICE_VEC I32x16 max_of(I32x16 a, I32x16 b) {
  return {_mm512_max_epi32(a.v, b.v)};
}
SLUICE_VEC std::int32_t max_of_lanes(I32x16 a) {
  return _mm512_reduce_max_epi32(a.v);
}
SLUICE_VEC I32x16 min_of(I32x16 a, I32x16 b) {
  return {_mm512_min_epi32(a.v, b.v)};
}
SLUICE_VEC Mask16 greater(I32x16 a, I32x16 b) {
  return {_mm512_cmpgt_epi32_mask(a.v, b.v)};
}
SLUICE_VEC Mask16 equal(I32x16 a, I32x16 b) {
  return {_mm512_cmpeq_epi32_mask(a.v, b.v)};
}
SLUICE_VEC I32x16 select(Mask16 m, I32x16 yes, I32x16 no) {
  return {_mm512_mask_blend_epi32(m.m, no.v, yes.v)};
}
// Writes the lanes of `mask`, packed, and anything after them, sixteen lanes in all; returns how many lanes `mask` has.
// (Compressing right into memory takes a hundred cycles and more on AMD processors.)
SLUICE_VEC int compress_store(std::int32_t* p, Mask16 mask, I32x16 a) {
  _mm512_storeu_si512(p, _mm512_maskz_compress_epi32(mask.m, a.v));
  return __builtin_popcount(mask.m);
}

struct F32x16 {
  using Int = I32x16;
  using Mask = Mask16;
  // Register blocks that fit: heads at once in a dot tile, and heads x 16 dims in a value tile.
  static constexpr int kDotHeads = 4, kValueHeads = 4, kValueVectors = 4;

  __m512 v;
  SLUICE_VEC static F32x16 zero() { return {_mm512_setzero_ps()}; }
  SLUICE_VEC static F32x16 broadcast(float x) { return {_mm512_set1_ps(x)}; }
  SLUICE_VEC static F32x16 load(const float* p) { return {_mm512_loadu_ps(p)}; }
  SLUICE_VEC static F32x16 load_half(const float* p) {  // lanes 8 and higher are 0
    return {_mm512_zextps256_ps512(_mm256_loadu_ps(p))};
  }
  SLUICE_VEC static F32x16 load_first(const float* p, int n);  // lanes n and higher are 0
  SLUICE_VEC static F32x16 load_bf16(const std::byte* p) {
    const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16))};
  }
  template <int kOffset>
  SLUICE_VEC static F32x16 nibbles(I32x16 codes);  // the low four bits of each lane less kOffset
  SLUICE_VEC static F32x16 load_f16(const std::byte* p) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
  }
  // e4m3 codes as value / 256, exactly, by way of f16, whose exponent has one bit more; a NaN code gives +-480 / 256.
  SLUICE_VEC static F32x16 load_e4m3_over_256(const std::byte* p) {
    const __m256i wide = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    const __m256i half = _mm256_and_si256(_mm256_slli_epi16(wide, 7), _mm256_set1_epi16(static_cast<short>(0xBF80)));
    return {_mm512_cvtph_ps(half)};
  }
  SLUICE_VEC void store(float* p) const { _mm512_storeu_ps(p, v); }
  SLUICE_VEC void store_first(float* p, int n) const;
  // Returns true if any of 64 e4m3 codes is a NaN.
  SLUICE_VEC static bool has_e4m3_nan(const std::byte* p) {
    const __m512i nan = _mm512_set1_epi8(0x7F);
    return _mm512_cmpeq_epi8_mask(_mm512_and_si512(_mm512_loadu_si512(p), nan), nan) != 0;
  }
  SLUICE_VEC float first_lane() const { return _mm512_cvtss_f32(v); }
};
SLUICE_VEC Mask16 first_lanes(int n) {
  return {static_cast<__mmask16>(n >= 16 ? 0xFFFFU : (1U << n) - 1U)};
}
SLUICE_VEC F32x16 F32x16::load_first(const float* p, int n) {
  return {_mm512_maskz_loadu_ps(first_lanes(n).m, p)};
}
SLUICE_VEC void F32x16::store_first(float* p, int n) const {
  _mm512_mask_storeu_ps(p, first_lanes(n).m, v);
}

SLUICE_VEC F32x16 operator+(F32x16 a, F32x16 b) {
  return {_mm512_add_ps(a.v, b.v)};
}
SLUICE_VEC F32x16 operator-(F32x16 a, F32x16 b) {
  return {_mm512_sub_ps(a.v, b.v)};
}
SLUICE_VEC F32x16 operator*(F32x16 a, F32x16 b) {
  return {_mm512_mul_ps(a.v, b.v)};
}
SLUICE_VEC F32x16 operator/(F32x16 a, F32x16 b) {
  return {_mm512_div_ps(a.v, b.v)};
}
SLUICE_VEC F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm512_fmadd_ps(a.v, b.v, c.v)};
}
SLUICE_VEC F32x16 fma_minus_even(F32x16 a, F32x16 b, F32x16 c) {  // a b - c in even lanes, a b + c in odd ones
  return {_mm512_fmaddsub_ps(a.v, b.v, c.v)};
}
SLUICE_VEC F32x16 sqrt(F32x16 a) {
  return {_mm512_sqrt_ps(a.v)};
}
SLUICE_VEC F32x16 max_of(F32x16 a, F32x16 b) {
  return {_mm512_max_ps(a.v, b.v)};
}  // a > b ? a : b
SLUICE_VEC F32x16 min_of(F32x16 a, F32x16 b) {
  return {_mm512_min_ps(a.v, b.v)};
}  // a < b ? a : b
SLUICE_VEC F32x16 round_to_even(F32x16 a) {
  return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
// Returns p * 2^n for integral n, if the result is a normal number.
SLUICE_VEC F32x16 times_power_of_two(F32x16 p, F32x16 n) {
  return {_mm512_scalef_ps(p.v, n.v)};
}
SLUICE_VEC Mask16 greater(F32x16 a, F32x16 b) {
  return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_GT_OQ)};
}
SLUICE_VEC Mask16 less_equal(F32x16 a, F32x16 b) {
  return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LE_OQ)};
}
SLUICE_VEC Mask16 equal(F32x16 a, F32x16 b) {
  return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ)};
}
SLUICE_VEC Mask16 is_nan(F32x16 a) {
  return {_mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q)};
}
SLUICE_VEC F32x16 select(Mask16 m, F32x16 yes, F32x16 no) {
  return {_mm512_mask_blend_ps(m.m, no.v, yes.v)};
}
SLUICE_VEC F32x16 as_float(I32x16 a) {
  return {_mm512_castsi512_ps(a.v)};
}
SLUICE_VEC I32x16 as_bits(F32x16 a) {
  return {_mm512_castps_si512(a.v)};
}
SLUICE_VEC F32x16 to_float(I32x16 a) {
  return {_mm512_cvtepi32_ps(a.v)};
}

// The values of e2m1 codes (0..15).
SLUICE_VEC F32x16 e2m1_values(I32x16 codes) {
  const __m512 values = _mm512_setr_ps(0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F, -0.0F, -0.5F, -1.0F, -1.5F,
                                       -2.0F, -3.0F, -4.0F, -6.0F);
  return {_mm512_permutexvar_ps(codes.v, values)};
}
template <int kOffset>
SLUICE_VEC F32x16 F32x16::nibbles(I32x16 codes) {
  const __m512 values = _mm512_cvtepi32_ps(_mm512_sub_epi32(I32x16::iota().v, _mm512_set1_epi32(kOffset)));
  return {_mm512_permutexvar_ps(codes.v, values)};
}
// Lane l gets lane l ^ N.
template <int N>
SLUICE_VEC F32x16 permute_xor(F32x16 a) {
  if constexpr (N == 8) return {_mm512_shuffle_f32x4(a.v, a.v, 0x4E)};
  if constexpr (N == 4) return {_mm512_shuffle_f32x4(a.v, a.v, 0xB1)};
  if constexpr (N == 2) return {_mm512_permute_ps(a.v, 0x4E)};
  if constexpr (N == 1) return {_mm512_permute_ps(a.v, 0xB1)};
}
template <int N>
SLUICE_VEC I32x16 permute_xor(I32x16 a) {
  return as_bits(permute_xor<N>(as_float(a)));
}
SLUICE_VEC F32x16 duplicate_even(F32x16 a) {
  return {_mm512_moveldup_ps(a.v)};
}
SLUICE_VEC F32x16 duplicate_odd(F32x16 a) {
  return {_mm512_movehdup_ps(a.v)};
}

// l += l + 8, l += l + 4: four partial sums of each of a, b, c, d, one after the other.
SLUICE_VEC __m512 partial_sums(F32x16 a, F32x16 b, F32x16 c, F32x16 d) {
  const __m512 ab = _mm512_add_ps(_mm512_shuffle_f32x4(a.v, b.v, 0x44), _mm512_shuffle_f32x4(a.v, b.v, 0xEE));
  const __m512 cd = _mm512_add_ps(_mm512_shuffle_f32x4(c.v, d.v, 0x44), _mm512_shuffle_f32x4(c.v, d.v, 0xEE));
  return _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xDD));
}

// out[h * stride + i] = tree sum of acc[h][i]: the last steps of lanes16 for a tile of products.
template <int H>
SLUICE_VEC void store_tree_sums(const F32x16 (&acc)[H][4], float* out, std::ptrdiff_t stride) {
  if constexpr (H == 4) {
    // Register i holds, for its key i, the partial sums of heads 0..3. Transposed inside each quarter, the sums of a
    // head's four keys come to lie next to each other.
    __m512 p[4];
    for (int i = 0; i < 4; ++i) p[i] = partial_sums(acc[0][i], acc[1][i], acc[2][i], acc[3][i]);
    const __m512 t0 = _mm512_unpacklo_ps(p[0], p[1]), t1 = _mm512_unpackhi_ps(p[0], p[1]);
    const __m512 t2 = _mm512_unpacklo_ps(p[2], p[3]), t3 = _mm512_unpackhi_ps(p[2], p[3]);
    const __m512 l0 = _mm512_shuffle_ps(t0, t2, 0x44), l1 = _mm512_shuffle_ps(t0, t2, 0xEE);
    const __m512 l2 = _mm512_shuffle_ps(t1, t3, 0x44), l3 = _mm512_shuffle_ps(t1, t3, 0xEE);
    const __m512 sums = _mm512_add_ps(_mm512_add_ps(l0, l2), _mm512_add_ps(l1, l3));
    _mm_storeu_ps(out, _mm512_castps512_ps128(sums));
    _mm_storeu_ps(out + stride, _mm512_extractf32x4_ps(sums, 1));
    _mm_storeu_ps(out + 2 * stride, _mm512_extractf32x4_ps(sums, 2));
    _mm_storeu_ps(out + 3 * stride, _mm512_extractf32x4_ps(sums, 3));
  } else {
    for (int h = 0; h < H; ++h) {
      const __m512 p = partial_sums(acc[h][0], acc[h][1], acc[h][2], acc[h][3]);
      const __m512 q = _mm512_add_ps(p, _mm512_permute_ps(p, 0x4E));
      const __m512 s = _mm512_add_ps(q, _mm512_permute_ps(q, 0xB1));
      const __m512i first_of_quarters = _mm512_setr_epi32(0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12);
      _mm_storeu_ps(out + h * stride, _mm512_castps512_ps128(_mm512_permutexvar_ps(first_of_quarters, s)));
    }
  }
}

}  // namespace sluice::cpu::SLUICE_ISA
