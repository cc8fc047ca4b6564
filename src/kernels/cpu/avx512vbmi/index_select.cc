#include "kernels/cpu/avx512/index_transpose.h"
#include "kernels/cpu/avx512/int8_values.h"
#include "kernels/cpu/avx512/kernels.h"
#include "kernels/cpu/avx512/linear_tuning.h"
#include "kernels/cpu/avx512vbmi/kernels.h"
#include "kernels/cpu/index_fp4.inc.h"

namespace sluice::avx512vbmi {
namespace {

template <bool kExponents>
class IndexIsa : public avx512::IndexTranspose {
 public:
  using Vec = avx512::F32x16;
  static constexpr bool kByExponents = kExponents;
  static constexpr int kFp4Heads = kExponents ? 4 : 8, kFp4Groups = 2;

  struct Bytes {
    __m512i v;
    SLUICE_VEC static Bytes load(const std::byte* p) { return {_mm512_load_si512(p)}; }
    SLUICE_VEC void store(std::byte* p) const { _mm512_store_si512(p, v); }
  };
  SLUICE_VEC Bytes e2m1_low(avx512::I32x16 a) const { return {values_.low(a.v)}; }
  SLUICE_VEC Bytes e2m1_high(avx512::I32x16 a) const { return {values_.high(a.v)}; }

  struct Dot {
    __m512i v;
    SLUICE_VEC void begin(avx512::I32x16 start) { v = start.v; }
    SLUICE_VEC void add(Bytes keys, std::int32_t four) { v = _mm512_dpbusd_epi32(v, keys.v, _mm512_set1_epi32(four)); }
    SLUICE_VEC avx512::I32x16 end(avx512::I32x16) const { return {v}; }
  };

 private:
  avx512::E2m1Bytes values_;
};

}  // namespace

void index_scores(const IndexTile& tile) {
  // Equal bits; on other processors the bf16 dot is slower than two multiply-adds.
  static const bool amd = __builtin_cpu_is("amd");
  static const bool by_dot = amd && avx512::has_dot();
  const RowCodec codec = tile.args->keys->format.codec;
  if (codec == RowCodec::kIndexFp8 && by_dot) {
    index_scores_dot(tile);
  } else if (codec != RowCodec::kIndexFp4) {
    avx512::index_scores(tile);
  } else if (amd) {
    cpu::IndexScorer<avx512::F32x16, cpu::IndexFp4<IndexIsa<true>>>(tile).run();
  } else {
    cpu::IndexScorer<avx512::F32x16, cpu::IndexFp4<IndexIsa<false>>>(tile).run();
  }
}

}  // namespace sluice::avx512vbmi
