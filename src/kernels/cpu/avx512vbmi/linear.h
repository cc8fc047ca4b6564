// The forms of kernels/linear.h for AVX-512 with VBMI and VNNI.
#pragma once

#include "kernels/cpu/kernel_table.h"

namespace sluice {

const LinearKernels& avx512vbmi_linear_kernels();

}  // namespace sluice
