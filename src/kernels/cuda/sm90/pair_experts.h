// Experts of a few rows, whose (row, slot) pairs fit a team's shared memory (pair_experts.cu).
#pragma once

#include "kernels/cuda/sm90/sm90_ops.h"

namespace sluice::cuda_sm90 {

// Whether they are multiplied so; of what streams_experts() takes (kernels/cuda/sm90/expert_stream.h).
bool multiplies_pairs(const Exec& exec, const ExpertsArgs& args, int rows, const ExpertWeights* shared);
// As stream_experts(). m: [pairs, inter], the shared expert's rows behind them; whole: that of all ranks, m itself
// where one has all.
void multiply_pairs(const Exec& exec, const ExpertsArgs& args, int first, int rows, const ExpertWeights* shared,
                    const StagedRows& from, const float* other, std::uint16_t* m, std::uint16_t* whole);

}  // namespace sluice::cuda_sm90
