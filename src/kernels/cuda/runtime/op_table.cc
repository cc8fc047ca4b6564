// Kernels in the orders of the CPU as a table: composed ops are made of them as they are on the CPU.
#include "kernels/cuda/device.h"

namespace sluice {

namespace cuda_ops {
#define SLUICE_OP(op, Args) void op(const Exec& exec, const Args& args);
SLUICE_PARTS(SLUICE_OP)
SLUICE_WHOLE_OPS(SLUICE_OP)
#undef SLUICE_OP
}  // namespace cuda_ops

const OpTable& cuda_op_table() {
#define SLUICE_OP(op, Args) .op = cuda_ops::op,
  static constexpr PartTable kParts{SLUICE_PARTS(SLUICE_OP)};
  static constexpr OpTable kTable{.device = "cuda",
                                  .parts = &kParts,
#define SLUICE_COMPOSED(op, Args) .op = composed::op,
                                  SLUICE_COMPOSED_OPS(SLUICE_COMPOSED) SLUICE_WHOLE_OPS(SLUICE_OP)
#undef SLUICE_COMPOSED
#undef SLUICE_OP
  };
  return kTable;
}

}  // namespace sluice
