// The CPU's parts, and the ops that are not composed of them. Each cuts its rows, outputs or heads into tiles for the
// kernels of exec.kernels and runs them on the threads of exec.pool. Tiles follow from shapes alone; they decide which
// thread computes a row, never how.
// Used by kernels/cpu, kernels/cpu/attention and kernels/cpu/linear.
#pragma once

#include <functional>

#include "kernels/cpu/kernel_table.h"
#include "kernels/ops/ops.h"

namespace sluice::cpu_ops {

#define SLUICE_OP(op, Args) void op(const Exec& exec, const Args& args);
SLUICE_PARTS(SLUICE_OP)
SLUICE_WHOLE_OPS(SLUICE_OP)
#undef SLUICE_OP

// Calls kernels.run() for outputs [begin, end), also for a weight that is packed when it is used. It packs such a
// weight, as much as one thread needs at a time, into the thread's own memory, once for all rows.
void run_outputs(const LinearKernels& kernels, const LinearJob& job, int rows, int begin, int end);

// Composed ops that fork fewer times here than their parts would, called one after the other.
void hc_leave_enter(const Exec& exec, const HcLeaveEnterArgs& args);
void add_norm(const Exec& exec, const AddNormArgs& args);
void project(const Exec& exec, const ProjectArgs& args);
void store_kv(const Exec& exec, const StoreKvArgs& args);
void index_select(const Exec& exec, const IndexSelectArgs& args);
void attend(const Exec& exec, const AttendArgs& args);

// attend_keys() in pieces of rows and heads: around(piece, keys) calls keys() when it is ready for the piece's keys.
struct AttendPiece {
  int begin, end, head_begin, head_end;
};
using AroundTile = std::function<void(const AttendPiece& piece, const std::function<void()>& keys)>;
void attend_keys_around(const Exec& exec, const AttendArgs& args, const AroundTile& around);

// Does rows [begin, end) of norm_inputs().
void norm_rows(const KernelTable& kernels, const NormInputsArgs& args, int begin, int end);
void check_norm(const NormInputsArgs& args);

}  // namespace sluice::cpu_ops
