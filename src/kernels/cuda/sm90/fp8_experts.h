// Experts in FP8, of the profile that multiplies FP8 codes (fp8_experts.cu).
// Used by sm90_experts.cu.
#pragma once

#include "kernels/cuda/sm90/fp8_products.h"

namespace sluice::cuda_sm90 {

bool in_fp8_tiles(const ExpertWeights& expert);
// Computes the routed experts if there are slots, and the shared one; all that there are are in FP8 tiles. m is SwiGLU
// in f32, rounded to bf16, then to codes. other: if not null it is y, with the results of other kernels: the shared
// expert's output, or the slots' sum.
void fp8_experts(const Exec& exec, const ExpertsArgs& args, const float* other);

}  // namespace sluice::cuda_sm90
