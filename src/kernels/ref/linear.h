// The scalar forms of kernels/linear.h and of SwiGLU (kernels/experts.h): the oracle of the others.
#pragma once

#include "kernels/kernel_table.h"

namespace sluice {

const LinearKernels& scalar_linear_kernels();
void swiglu_scalar(const SwiGluArgs& args, int begin, int end);

}  // namespace sluice
