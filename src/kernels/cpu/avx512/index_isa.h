// The instructions of this target that the indexer's kernels use (kernels/cpu/attention/index_fp4.h,
// kernels/cpu/attention/index_pairs.h).
#pragma once

#include "kernels/cpu/attention/index_pairs.h"
#include "kernels/cpu/avx512/index_transpose.h"
#include "kernels/cpu/avx512/int8_values.h"

namespace sluice::cpu::SLUICE_ISA {
class IndexIsa : public IndexTranspose {
 public:
  using Vec = F32x16;
  static constexpr bool kByExponents = false;
  static constexpr int kFp4Heads = 8, kFp4Groups = 2;
  using Pairs = FloatPairs<F32x16, 32>;
  static constexpr int kPairsHeads = 8, kPairsGroups = 2;

  struct Bytes {
    __m512i v;
    SLUICE_VEC static Bytes load(const std::byte* p) { return {_mm512_load_si512(p)}; }
    SLUICE_VEC void store(std::byte* p) const { _mm512_store_si512(p, v); }
  };
  SLUICE_VEC Bytes e2m1_low(I32x16 a) const { return {values_.low(a.v)}; }
  SLUICE_VEC Bytes e2m1_high(I32x16 a) const { return {values_.high(a.v)}; }

  // Pairs of products are at most 2 * 24 * 12, so that the sixteen of a block do not saturate 16 bits.
  struct Dot {
    __m512i v;
    SLUICE_VEC void begin(I32x16) { v = _mm512_setzero_si512(); }
    SLUICE_VEC void add(Bytes keys, std::int32_t four) {
      v = _mm512_add_epi16(v, _mm512_maddubs_epi16(keys.v, _mm512_set1_epi32(four)));
    }
    SLUICE_VEC I32x16 end(I32x16 start) const { return I32x16{_mm512_madd_epi16(v, _mm512_set1_epi16(1))} + start; }
  };

 private:
  E2m1Bytes values_;
};

}  // namespace sluice::cpu::SLUICE_ISA
