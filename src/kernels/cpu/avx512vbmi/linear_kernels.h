// The linear kernels that VBMI and VNNI speed up, each LinearKernels::run for its kind of weight; avx512/ has the rest.
#pragma once

#include "kernels/linear.h"

namespace sluice::avx512vbmi {

void linear_fp8(const LinearJob& job, int rows, int begin, int end);
void linear_int8(const LinearJob& job, int rows, int begin, int end);  // mxfp4 times int8

// The same bits with the bf16 dot instruction, for rounded inputs. It exists where avx512::has_dot() and serves fp8,
// mxfp4 and bf16, in blocks of an even number of inputs.
void linear_dot(const LinearJob& job, int rows, int begin, int end);

// linear_int8() of whole tiles for many rows, by AMX where the processor and the system have it.
bool has_amx();
void linear_amx(const LinearJob& job, int rows, int begin, int end);

}  // namespace sluice::avx512vbmi
