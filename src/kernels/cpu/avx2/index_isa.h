// The instructions of this target that the indexer's kernels use (kernels/cpu/attention/index_fp4.h,
// kernels/cpu/attention/index_pairs.h).
#pragma once

#include "kernels/cpu/attention/index_pairs.h"
#include "kernels/cpu/avx2/vec.h"

namespace sluice::cpu::SLUICE_ISA {
class IndexIsa {
 public:
  using Vec = F32x16;
  static constexpr bool kByExponents = false;
  static constexpr int kFp4Heads = 4, kFp4Groups = 1;
  using Pairs = FloatPairs<F32x16, 32>;
  static constexpr int kPairsHeads = 4, kPairsGroups = 1;

  struct Bytes {
    __m256i lo, hi;
    SLUICE_VEC static Bytes load(const std::byte* p) {
      const auto* from = reinterpret_cast<const __m256i*>(p);
      return {_mm256_load_si256(from), _mm256_load_si256(from + 1)};
    }
    SLUICE_VEC void store(std::byte* p) const {
      auto* to = reinterpret_cast<__m256i*>(p);
      _mm256_store_si256(to, lo);
      _mm256_store_si256(to + 1, hi);
    }
  };
  SLUICE_VEC Bytes e2m1_low(I32x16 a) const { return {look_up(a.lo), look_up(a.hi)}; }
  SLUICE_VEC Bytes e2m1_high(I32x16 a) const {
    return {look_up(_mm256_srli_epi16(a.lo, 4)), look_up(_mm256_srli_epi16(a.hi, 4))};
  }

  // Pairs of products are at most 2 * 24 * 12, so that the sixteen of a block do not saturate 16 bits.
  struct Dot {
    __m256i lo, hi;
    SLUICE_VEC void begin(I32x16) { lo = hi = _mm256_setzero_si256(); }
    SLUICE_VEC void add(Bytes keys, std::int32_t four) {
      const __m256i x = _mm256_set1_epi32(four);
      lo = _mm256_add_epi16(lo, _mm256_maddubs_epi16(keys.lo, x));
      hi = _mm256_add_epi16(hi, _mm256_maddubs_epi16(keys.hi, x));
    }
    SLUICE_VEC I32x16 end(I32x16 start) const {
      const __m256i ones = _mm256_set1_epi16(1);
      return I32x16{_mm256_madd_epi16(lo, ones), _mm256_madd_epi16(hi, ones)} + start;
    }
  };

  // Copies dword `offset` / 4 + i of sixteen rows to lane j of to[i].
  SLUICE_VEC static void transpose(const RowRef* rows, int offset, I32x16 (&to)[4]) {
    __m256i low[4], high[4];
    transpose_eight(rows, offset, low);
    transpose_eight(rows + 8, offset, high);
    for (int i = 0; i < 4; ++i) to[i] = {low[i], high[i]};
  }

 private:
  SLUICE_VEC static void transpose_eight(const RowRef* rows, int offset, __m256i (&to)[4]) {
    __m256i part[4];  // part[i]: rows i and i + 4
    for (int i = 0; i < 4; ++i) {
      part[i] = _mm256_loadu2_m128i(reinterpret_cast<const __m128i*>(rows[i + 4].data + offset),
                                    reinterpret_cast<const __m128i*>(rows[i].data + offset));
    }
    const __m256i a = _mm256_unpacklo_epi32(part[0], part[1]), b = _mm256_unpackhi_epi32(part[0], part[1]);
    const __m256i c = _mm256_unpacklo_epi32(part[2], part[3]), d = _mm256_unpackhi_epi32(part[2], part[3]);
    to[0] = _mm256_unpacklo_epi64(a, c);
    to[1] = _mm256_unpackhi_epi64(a, c);
    to[2] = _mm256_unpacklo_epi64(b, d);
    to[3] = _mm256_unpackhi_epi64(b, d);
  }
  SLUICE_VEC __m256i look_up(__m256i nibbles) const {
    return _mm256_shuffle_epi8(values_, _mm256_and_si256(nibbles, _mm256_set1_epi8(15)));
  }
  // The bytes 2 e2m1 + 12, by code.
  __m256i values_ =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
};

}  // namespace sluice::cpu::SLUICE_ISA
