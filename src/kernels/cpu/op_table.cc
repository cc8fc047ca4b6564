#include "kernels/cpu/ops.h"

namespace sluice {

const OpTable& cpu_op_table() {
  static constexpr OpTable kTable{.device = "cpu",
#define SLUICE_OP(op, Args) .op = cpu_ops::op,
                                  SLUICE_OPS(SLUICE_OP)
#undef SLUICE_OP
  };
  return kTable;
}

}  // namespace sluice
