// The CPU's parts, and the ops that are not composed of them: each cuts its rows, outputs or heads into tiles for the
// kernels of exec.kernels and runs them on the threads of exec.pool. Tiles follow from shapes alone; they decide which
// thread computes a row, never how.
#pragma once

#include "kernels/cpu/kernel_table.h"
#include "kernels/ops.h"

namespace sluice::cpu_ops {

#define SLUICE_OP(op, Args) void op(const Exec& exec, const Args& args);
SLUICE_PARTS(SLUICE_OP)
SLUICE_WHOLE_OPS(SLUICE_OP)
#undef SLUICE_OP

// kernels.run() of outputs [begin, end), cut like its, also for a weight that is packed when it is used: then as much
// of it as one thread needs at a time is packed into memory of the thread's own, once for all rows.
void run_outputs(const LinearKernels& kernels, const LinearJob& job, int rows, int begin, int end);

}  // namespace sluice::cpu_ops
