// The AVX-512 forms (F, BW, DQ, VL) of kernels/linear.h and of SwiGLU (kernels/experts.h).
#pragma once

#include "kernels/cpu/kernel_table.h"

namespace sluice {

const LinearKernels& avx512_linear_kernels();
void swiglu_avx512(const SwiGluArgs& args, int begin, int end);

}  // namespace sluice
