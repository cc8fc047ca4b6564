#include "kernels/cpu/ops.h"

namespace sluice {

const OpTable& cpu_op_table() {
#define SLUICE_OP(op, Args) .op = cpu_ops::op,
  static constexpr PartTable kParts{SLUICE_PARTS(SLUICE_OP)};
  static constexpr OpTable kTable{.device = "cpu",
                                  .parts = &kParts,
#define SLUICE_COMPOSED(op, Args) .op = composed::op,
                                  SLUICE_COMPOSED_OPS(SLUICE_COMPOSED) SLUICE_WHOLE_OPS(SLUICE_OP)
#undef SLUICE_COMPOSED
#undef SLUICE_OP
  };
  return kTable;
}

}  // namespace sluice
