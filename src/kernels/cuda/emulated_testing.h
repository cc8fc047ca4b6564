// The CUDA kernels compiled for the CPU (kernels/cuda/launch.h): each op runs its grids before it returns.
#pragma once

#include "kernels/ops.h"

namespace sluice {

const OpTable& cuda_emulated_op_table();

}  // namespace sluice
