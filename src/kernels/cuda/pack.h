// How CUDA kernels in the CPU's orders keep the weights of linears (kernels/cuda/linear_layout.h): packing, on the
// host.
#pragma once

#include "kernels/linear_packing.h"

namespace sluice {

const LinearPacking& cuda_linear_packing();

}  // namespace sluice
