// The table of kernels in the orders of the CPU: composed ops are made of them as they are on the CPU.
// Called through the table of ops (kernels/ops/ops.h).
#include "kernels/cuda/device.h"

namespace sluice {

namespace cuda_ops {
#define SLUICE_OP(op, Args) void op(const Exec& exec, const Args& args);
SLUICE_PARTS(SLUICE_OP)
SLUICE_WHOLE_OPS(SLUICE_OP)
SLUICE_OP(store_kv, StoreKvArgs)
SLUICE_OP(all_gather, AllGatherArgs)
SLUICE_OP(add_norm_in_blocks, AddNormArgs)
#undef SLUICE_OP
}  // namespace cuda_ops
namespace cuda_sm90 {
void linear(const Exec& exec, const LinearArgs& args);
void project(const Exec& exec, const ProjectArgs& args);
void experts(const Exec& exec, const ExpertsArgs& args);
void attend_keys(const Exec& exec, const AttendArgs& args);
void attend(const Exec& exec, const AttendArgs& args);
void hc_leave_enter(const Exec& exec, const HcLeaveEnterArgs& args);
void select_entries(const Exec& exec, const IndexSelectArgs& args);
void index_select(const Exec& exec, const IndexSelectArgs& args);
}  // namespace cuda_sm90

const OpTable& cuda_op_table() {
#define SLUICE_OP(op, Args) .op = cuda_ops::op,
  static constexpr PartTable kParts{SLUICE_PARTS(SLUICE_OP)};
  static constexpr OpTable kComposed{.device = "cuda",
                                     .parts = &kParts,
#define SLUICE_COMPOSED(op, Args) .op = composed::op,
                                     SLUICE_COMPOSED_OPS(SLUICE_COMPOSED) SLUICE_WHOLE_OPS(SLUICE_OP)
#undef SLUICE_COMPOSED
#undef SLUICE_OP
  };
  static const OpTable table = [] {
    OpTable ops = kComposed;
    ops.store_kv = cuda_ops::store_kv;
    ops.all_gather = cuda_ops::all_gather;
    return ops;
  }();
  return table;
}

const OpTable& cuda_sm90_op_table() {
  static const PartTable parts = [] {
    PartTable table = *cuda_op_table().parts;
    table.linear = cuda_sm90::linear;
    table.attend_keys = cuda_sm90::attend_keys;
    table.select_entries = cuda_sm90::select_entries;
    return table;
  }();
  static const OpTable table = [] {
    OpTable ops = cuda_op_table();
    ops.device = "cuda, sm90";
    ops.parts = &parts;
    ops.add_norm = cuda_ops::add_norm_in_blocks;
    ops.project = cuda_sm90::project;
    ops.experts = cuda_sm90::experts;
    ops.experts_support = {.biases = false, .gelu = false};
    ops.attend = cuda_sm90::attend;
    ops.hc_leave_enter = cuda_sm90::hc_leave_enter;
    ops.index_select = cuda_sm90::index_select;
    return ops;
  }();
  return table;
}

}  // namespace sluice
