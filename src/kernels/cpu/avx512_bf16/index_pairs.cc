// The indexer's FP8 keys and their queries as pairs of bf16, which hold them exactly, multiplied by the bf16 dot
// instruction. It adds the odd product, then the even one, which is the order of kernels/ops/indexer.h.
#include "kernels/cpu/attention/index_pairs.h"

#include <bit>
#include <cstdint>

#include "kernels/cpu/avx512/index_transpose.h"
#include "kernels/cpu/avx512/intrinsics.h"
#include "kernels/cpu/avx512/vec.h"
#include "kernels/cpu/kernel_list.h"

namespace sluice::cpu::SLUICE_ISA {
namespace {

// A cell is a pair, the odd dim in the high half.
struct DotPairs {
  static constexpr int kCells = 1, kKeys = 64;

  SLUICE_VEC static I32x16 pair(I32x16 even, I32x16 odd) {
    return shift_right<16>(even) | (odd & I32x16::broadcast(static_cast<std::int32_t>(0xFFFF0000U)));
  }
  SLUICE_VEC static void store_keys(const I32x16 (&dwords)[4], float* to) {
    as_float(pair(dwords[0], dwords[1])).store(to);
    as_float(pair(dwords[2], dwords[3])).store(to + kKeys);
  }
  SLUICE_VEC static void store_queries(F32x16 x, float* to) {
    const __m512i odd_bits = _mm512_srli_epi64(as_bits(x).v, 32);
    const I32x16 pairs = pair(as_bits(x), {odd_bits});  // pairs, in the even lanes
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtepi64_epi32(pairs.v));
  }
  template <int H, int G>
  SLUICE_VEC static void add(F32x16 (&y)[H][G], const float* q, std::ptrdiff_t ldq, const float* keys) {
    __m512i key[G];
#pragma GCC unroll 4
    for (int g = 0; g < G; ++g) key[g] = _mm512_loadu_si512(keys + 16 * g);
#pragma GCC unroll 8
    for (int h = 0; h < H; ++h) {
      const __m512i query = _mm512_set1_epi32(std::bit_cast<std::int32_t>(q[h * ldq]));
#pragma GCC unroll 4
      for (int g = 0; g < G; ++g) {
        y[h][g].v = _mm512_dpbf16_ps(y[h][g].v, reinterpret_cast<__m512bh>(query), reinterpret_cast<__m512bh>(key[g]));
      }
    }
  }
};

struct DotIsa : IndexTranspose {
  using Vec = F32x16;
  using Pairs = DotPairs;
  static constexpr int kPairsHeads = 8, kPairsGroups = 2;
};

}  // namespace

void index_scores_fp8(const IndexTile& tile) {
  IndexScorer<F32x16, IndexPairs<DotIsa>>(tile).run();
}

namespace {

constexpr Kernel kKernels[] = {SLUICE_KERNEL(index_scores_fp8, index_scores_fp8, CpuFeature::kFastBf16Dot)};

}  // namespace

SLUICE_KERNELS(index_pairs, kKernels, {});

}  // namespace sluice::cpu::SLUICE_ISA
