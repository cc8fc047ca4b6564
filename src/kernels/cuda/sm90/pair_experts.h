// Experts of a few rows, whose (row, slot) pairs fit a team's shared memory (pair_experts.cu).
// Used by expert_stream.cu.
#pragma once

#include "kernels/cuda/sm90/sm90_ops.h"

namespace sluice::cuda_sm90 {

// True if the pairs are multiplied this way; called for rows that streams_experts() can
// do (kernels/cuda/sm90/expert_stream.h).
bool multiplies_pairs(const Exec& exec, const ExpertsArgs& args, int rows, const ExpertWeights* shared);
// Does the same as stream_experts(). m: [pairs, inter], followed by the shared expert's rows; whole: that of all ranks,
// m itself if one rank has all.
void multiply_pairs(const Exec& exec, const ExpertsArgs& args, int first, int rows, const ExpertWeights* shared,
                    const StagedRows& from, const float* other, std::uint16_t* m, std::uint16_t* whole);

}  // namespace sluice::cuda_sm90
