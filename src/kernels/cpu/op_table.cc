// Used by kernels/cpu, kernels/cpu/attention and kernels/cpu/linear.
#include "kernels/cpu/cpu_ops.h"

namespace sluice {

const OpTable& cpu_op_table() {
#define SLUICE_OP(op, Args) .op = cpu_ops::op,
#define SLUICE_COMPOSED(op, Args) .op = composed::op,
  static constexpr PartTable kParts{SLUICE_PARTS(SLUICE_OP)};
  static constexpr OpTable kTable = [] {
    OpTable table{.device = "cpu", .parts = &kParts, SLUICE_COMPOSED_OPS(SLUICE_COMPOSED) SLUICE_WHOLE_OPS(SLUICE_OP)};
    table.hc_leave_enter = cpu_ops::hc_leave_enter;
    table.add_norm = cpu_ops::add_norm;
    table.project = cpu_ops::project;
    table.store_kv = cpu_ops::store_kv;
    table.index_select = cpu_ops::index_select;
    table.attend = cpu_ops::attend;
    return table;
  }();
#undef SLUICE_COMPOSED
#undef SLUICE_OP
  return kTable;
}

}  // namespace sluice
