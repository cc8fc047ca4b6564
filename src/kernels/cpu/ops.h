// The whole ops of the CPU: each cuts its rows, outputs or heads into tiles for the kernels of exec.kernels and runs
// them on the threads of exec.pool. Tiles follow from shapes alone; they decide which thread computes a row, never how.
#pragma once

#include "kernels/ops.h"

namespace sluice::cpu_ops {

#define SLUICE_OP(op, Args) void op(const Exec& exec, const Args& args);
SLUICE_OPS(SLUICE_OP)
#undef SLUICE_OP

// out [rows, input_floats(form, in)]: the job's inputs in `form`, which is not kF32.
void prepare_rows(const Exec& exec, int rows, int in, const LinearJob& job, InputForm form, float* out);

}  // namespace sluice::cpu_ops
