// The files of the AVX2 linear kernels: one function per kind of weight, each LinearKernels::run for it.
#pragma once

#include "kernels/linear.h"

namespace sluice::avx2 {

void linear_plain(const LinearJob& job, int rows, int begin, int end);  // f32, bf16
void linear_fp8(const LinearJob& job, int rows, int begin, int end);
void linear_mxfp4(const LinearJob& job, int rows, int begin, int end);
void linear_int8(const LinearJob& job, int rows, int begin, int end);        // mxfp4 times int8
void linear_codes(const LinearJob& job, int rows, int begin, int end);       // codes times floats
void linear_codes_int8(const LinearJob& job, int rows, int begin, int end);  // codes times int8
void linear_transposed_codes(const LinearJob& job, int rows, int begin, int end);

// linear_int8 and linear_codes_int8 by AVX-VNNI; only where has_vnni(), and there instead of them.
bool has_vnni();
void linear_int8_vnni(const LinearJob& job, int rows, int begin, int end);
void linear_codes_int8_vnni(const LinearJob& job, int rows, int begin, int end);

}  // namespace sluice::avx2
