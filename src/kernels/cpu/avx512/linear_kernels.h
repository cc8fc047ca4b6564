// The files of the AVX-512 linear kernels: one function per kind of weight, each LinearKernels::run for it.
#pragma once

#include "kernels/linear.h"

namespace sluice {

inline constexpr int kAvx512TileGroups = 4;

void linear_plain_avx512(const LinearJob& job, int rows, int begin, int end);  // f32, bf16
void linear_fp8_avx512(const LinearJob& job, int rows, int begin, int end);
void linear_mxfp4_avx512(const LinearJob& job, int rows, int begin, int end);

}  // namespace sluice
