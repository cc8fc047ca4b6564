// The files of the AVX-512 linear kernels: one function per kind of weight, each LinearKernels::run for it.
#pragma once

#include "kernels/linear.h"

namespace sluice::avx512 {

void linear_plain(const LinearJob& job, int rows, int begin, int end);  // f32, bf16
void linear_fp8(const LinearJob& job, int rows, int begin, int end);
void linear_mxfp4(const LinearJob& job, int rows, int begin, int end);

}  // namespace sluice::avx512
