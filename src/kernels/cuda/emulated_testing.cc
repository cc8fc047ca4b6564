#include "kernels/cuda/op_cases_testing.h"
#include "kernels/cuda/shared/add_norm.cu"
#include "kernels/cuda/shared/attend_expanded.cu"
#include "kernels/cuda/shared/compressor.cu"
#include "kernels/cuda/shared/embedding.cu"
#include "kernels/cuda/shared/expert_pairs.cu"
#include "kernels/cuda/shared/few_outputs.cu"
#include "kernels/cuda/shared/indexer.cu"
#include "kernels/cuda/shared/linear_inputs.cu"
#include "kernels/cuda/shared/linear_row.cu"
#include "kernels/cuda/shared/norms.cu"
#include "kernels/cuda/shared/planes.cu"
#include "kernels/cuda/shared/previous_rows.cu"
#include "kernels/cuda/shared/rotations.cu"
#include "kernels/cuda/shared/router.cu"
#include "kernels/cuda/shared/shared_all_gather.cu"
#include "kernels/cuda/shared/shared_attend.cu"
#include "kernels/cuda/shared/shared_experts.cu"
#include "kernels/cuda/shared/shared_hyper_connection.cu"
#include "kernels/cuda/shared/shared_linear.cu"
#include "kernels/cuda/shared/shared_rows.cu"
#include "kernels/cuda/shared/shared_sample.cu"
#include "kernels/cuda/shared/store_heads.cu"
#include "kernels/cuda/shared/store_kv.cu"

namespace sluice {

const OpTable& cuda_emulated_op_table() {
#define SLUICE_OP(op, Args) .op = cuda_emulated_ops::op,
  static constexpr PartTable kParts{SLUICE_PARTS(SLUICE_OP)};
  static constexpr OpTable kComposed{.device = "cuda, emulated",
                                     .parts = &kParts,
#define SLUICE_COMPOSED(op, Args) .op = composed::op,
                                     SLUICE_COMPOSED_OPS(SLUICE_COMPOSED) SLUICE_WHOLE_OPS(SLUICE_OP)
#undef SLUICE_COMPOSED
#undef SLUICE_OP
  };
  static const OpTable table = [] {
    OpTable ops = kComposed;
    ops.store_kv = cuda_emulated_ops::store_kv;
    ops.all_gather = cuda_emulated_ops::all_gather;
    return ops;
  }();
  return table;
}

}  // namespace sluice
