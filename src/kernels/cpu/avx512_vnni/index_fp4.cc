// The indexer's FP4 keys, four products in one instruction.
#include "kernels/cpu/attention/index_fp4.h"

#include "kernels/cpu/avx512/index_transpose.h"
#include "kernels/cpu/avx512/int8_values.h"
#include "kernels/cpu/kernel_list.h"

namespace sluice::cpu::SLUICE_ISA {
namespace {

template <bool kExponents>
class IndexIsa : public IndexTranspose {
 public:
  using Vec = F32x16;
  static constexpr bool kByExponents = kExponents;
  static constexpr int kFp4Heads = kExponents ? 4 : 8, kFp4Groups = 2;

  struct Bytes {
    __m512i v;
    SLUICE_VEC static Bytes load(const std::byte* p) { return {_mm512_load_si512(p)}; }
    SLUICE_VEC void store(std::byte* p) const { _mm512_store_si512(p, v); }
  };
  SLUICE_VEC Bytes e2m1_low(I32x16 a) const { return {values_.low(a.v)}; }
  SLUICE_VEC Bytes e2m1_high(I32x16 a) const { return {values_.high(a.v)}; }

  struct Dot {
    __m512i v;
    SLUICE_VEC void begin(I32x16 start) { v = start.v; }
    SLUICE_VEC void add(Bytes keys, std::int32_t four) { v = _mm512_dpbusd_epi32(v, keys.v, _mm512_set1_epi32(four)); }
    SLUICE_VEC I32x16 end(I32x16) const { return {v}; }
  };

 private:
  E2m1Bytes values_;
};

}  // namespace

void index_scores_fp4(const IndexTile& tile) {
  IndexScorer<F32x16, IndexFp4<IndexIsa<false>>>(tile).run();
}
void index_scores_fp4_by_exponents(const IndexTile& tile) {
  IndexScorer<F32x16, IndexFp4<IndexIsa<true>>>(tile).run();
}

namespace {

using enum CpuFeature;
constexpr Kernel kKernels[] = {
    SLUICE_KERNEL(index_scores_fp4, index_scores_fp4_by_exponents, kScalesByExponents),
    SLUICE_KERNEL(index_scores_fp4, index_scores_fp4),
};

}  // namespace

SLUICE_KERNELS(index_fp4, kKernels, {});

}  // namespace sluice::cpu::SLUICE_ISA
