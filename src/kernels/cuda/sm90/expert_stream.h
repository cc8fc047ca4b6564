// Experts with few rows each, where their weights are MXFP4 in strips (expert_stream.cu).
#pragma once

#include "kernels/cuda/shared/expert_pairs.h"
#include "kernels/cuda/sm90/sm90_ops.h"

namespace sluice::cuda_sm90 {

// Whether it takes so many rows of the op, and the shared expert with them.
bool streams_experts(const ExpertsArgs& args, int rows);
// Whether expert_tiles.h takes so many rows of the op.
bool tiles_experts(const ExpertsArgs& args, int rows);
bool streams_shared(const ExpertsArgs& args, const ExpertWeights& shared, int rows);
// What it takes from `carver`.
void count_stream(const ExpertsArgs& args, int rows, bool shared, cuda_ops::Carver& carver);
// The op's rows [first, first + rows), whose inputs are `from`. shared: not null: the shared expert, added last; else
// `other`, if it is not null, is [rows, hidden], which is.
void stream_experts(const Exec& exec, const ExpertsArgs& args, int first, int rows, const ExpertWeights* shared,
                    const StagedRows& from, const float* other, cuda_ops::Carver& carver);

}  // namespace sluice::cuda_sm90
