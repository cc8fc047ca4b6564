// The AVX2 forms (with FMA and F16C) of kernels/linear.h and of SwiGLU (kernels/experts.h).
#pragma once

#include "kernels/cpu/kernel_table.h"

namespace sluice {

const LinearKernels& avx2_linear_kernels();
void swiglu_avx2(const SwiGluArgs& args, int begin, int end);

}  // namespace sluice
