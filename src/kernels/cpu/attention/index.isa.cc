// Compiled for avx2 and avx512.
// The indexer's tiles (kernels/ops/indexer.h): scores of keys, and the best of them.
// Used by kernels/cpu/avx512_vnni/index_fp4.cc.
#include "kernels/cpu/attention/index_fp4.h"
#include "kernels/cpu/attention/index_pairs.h"
#include "kernels/cpu/kernel_list.h"
#include "kernels/cpu/vec.h"

#include SLUICE_VECTOR_HEADER(index_isa.h)

namespace sluice::cpu::SLUICE_ISA {

void index_scores(const IndexTile& tile) {
  IndexScorer<F32x16, IndexPairs<IndexIsa>>(tile).run();
}
void index_scores_fp4(const IndexTile& tile) {
  IndexScorer<F32x16, IndexFp4<IndexIsa>>(tile).run();
}

void keep_best(IndexCandidates& candidates, int k) {
  keep_best<F32x16>(candidates, k);
}

namespace {

constexpr Kernel kKernels[] = {
    SLUICE_KERNEL(index_scores, index_scores),
    SLUICE_KERNEL(index_scores_fp8, index_scores),
    SLUICE_KERNEL(index_scores_fp4, index_scores_fp4),
    SLUICE_KERNEL(keep_best, keep_best),
};

}  // namespace

SLUICE_KERNELS(index, kKernels, {});

}  // namespace sluice::cpu::SLUICE_ISA
