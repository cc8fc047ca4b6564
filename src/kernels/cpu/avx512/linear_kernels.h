// The files of the AVX-512 linear kernels: one function per kind of weight, each LinearKernels::run for it.
#pragma once

#include "kernels/linear.h"

namespace sluice::avx512 {

void linear_plain(const LinearJob& job, int rows, int begin, int end);  // f32, bf16
void linear_fp8(const LinearJob& job, int rows, int begin, int end);
void linear_mxfp4(const LinearJob& job, int rows, int begin, int end);
void linear_int8(const LinearJob& job, int rows, int begin, int end);        // mxfp4 times int8
void linear_codes(const LinearJob& job, int rows, int begin, int end);       // codes times floats
void linear_codes_int8(const LinearJob& job, int rows, int begin, int end);  // codes times int8

// The same bits with the bf16 dot instruction, for rounded inputs. It exists where the processor has AVX-512 BF16 and
// serves fp8, mxfp4 and bf16, in blocks of an even number of inputs.
bool has_dot();
void linear_dot(const LinearJob& job, int rows, int begin, int end);

// linear_int8() of whole tiles for many rows, by AMX where the processor and the system have it.
bool has_amx();
void linear_amx(const LinearJob& job, int rows, int begin, int end);

}  // namespace sluice::avx512
