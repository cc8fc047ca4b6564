// Parts and whole ops of a CUDA device in the orders of the CPU. Each enqueues kernels (kernels/cuda/launch.h) on the
// stream of exec.device and returns. Weights are packed by cuda_linear_packing() (kernels/cuda/linear_layout.h).
// Used by kernels/cuda/sm90.
#pragma once

#include "kernels/ops/ops.h"

namespace sluice::cuda_ops {

#define SLUICE_OP(op, Args) void op(const Exec& exec, const Args& args);
SLUICE_PARTS(SLUICE_OP)
SLUICE_WHOLE_OPS(SLUICE_OP)
#undef SLUICE_OP

}  // namespace sluice::cuda_ops
