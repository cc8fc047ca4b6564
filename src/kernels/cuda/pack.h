// How CUDA kernels in the CPU's orders keep the weights of linears: packing, on the host. `run` and `prepare` of the
// table are null.
#pragma once

#include "kernels/kernel_table.h"

namespace sluice {

const LinearKernels& cuda_linear_packing();

}  // namespace sluice
