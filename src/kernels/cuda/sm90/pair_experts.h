// Experts of a row, whose (row, slot) pairs are multiplied each by itself (pair_experts.cu).
#pragma once

#include "kernels/cuda/sm90/ops.h"

namespace sluice::cuda_sm90 {

// Whether they are multiplied so; of what streams_experts() takes (kernels/cuda/sm90/expert_stream.h).
bool multiplies_pairs(const Exec& exec, const ExpertsArgs& args, int rows, const ExpertWeights* shared);
// As stream_experts(), of one row. m: [pairs, inter], the shared expert's row behind them.
void multiply_pairs(const Exec& exec, const ExpertsArgs& args, int first, const ExpertWeights* shared,
                    const StagedRows& from, const float* other, std::uint16_t* m);

}  // namespace sluice::cuda_sm90
