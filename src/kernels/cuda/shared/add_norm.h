// add_norm (kernels/ops/residual.h) in one kernel, in the order of the profile sm90. It is the header's but for the sum
// of squares:
//   x[t] is cut into blocks of 128; a block's sum is lanes16's, and S adds them in ascending order, from 0
//   r = 1 / sqrt(S / dim + eps)
// Rows that are no whole blocks, or longer than 32,768, have the header's, always.
#pragma once

#include "kernels/cuda/launch.h"
#include "kernels/ops/residual.h"

namespace sluice::SLUICE_CUDA_OPS {

inline constexpr int kNormBlock = 128, kMostNormDims = 32768;

void add_norm_in_blocks(const Exec& exec, const AddNormArgs& args);

}  // namespace sluice::SLUICE_CUDA_OPS
