// Ops of which others are made.
// Used by kernels/cuda/shared and kernels/cuda/sm90.
#pragma once

#include "kernels/cuda/launch.h"
#include "kernels/ops/elementwise.h"
#include "kernels/ops/linear.h"

namespace sluice::SLUICE_CUDA_OPS {

void linear(const Exec& exec, const LinearArgs& args);
void prepare_rows(const Exec& exec, const PrepareRowsArgs& args);
void rms_norm(const Exec& exec, const RmsNormArgs& args);
// rms_norm, and its results rounded to bf16, to rows of `ld_rounded` floats; null: not wanted.
void rms_norm_rounded(const Exec& exec, const RmsNormArgs& args, float* rounded, std::ptrdiff_t ld_rounded);

}  // namespace sluice::SLUICE_CUDA_OPS
