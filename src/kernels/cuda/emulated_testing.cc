#include "kernels/cuda/emulated_testing.h"

#include "kernels/cuda/shared/attend.cu"
#include "kernels/cuda/shared/attend_expanded.cu"
#include "kernels/cuda/shared/compressor.cu"
#include "kernels/cuda/shared/embedding.cu"
#include "kernels/cuda/shared/experts.cu"
#include "kernels/cuda/shared/hyper_connection.cu"
#include "kernels/cuda/shared/indexer.cu"
#include "kernels/cuda/shared/linear.cu"
#include "kernels/cuda/shared/norms.cu"
#include "kernels/cuda/shared/rotations.cu"
#include "kernels/cuda/shared/router.cu"
#include "kernels/cuda/shared/rows.cu"
#include "kernels/cuda/shared/sample.cu"
#include "kernels/cuda/shared/streams.cu"

namespace sluice {

const OpTable& cuda_emulated_op_table() {
  static constexpr OpTable kTable{.device = "cuda, emulated",
#define SLUICE_OP(op, Args) .op = cuda_emulated_ops::op,
                                  SLUICE_OPS(SLUICE_OP)
#undef SLUICE_OP
  };
  return kTable;
}

}  // namespace sluice
