// Experts with few rows each whose weights are MXFP4 in strips (expert_stream.cu).
// Used by sm90_experts.cu.
#pragma once

#include "kernels/cuda/shared/expert_pairs.h"
#include "kernels/cuda/sm90/sm90_ops.h"

namespace sluice::cuda_sm90 {

// True if it can do `rows` rows of the op, and the shared expert with them.
bool streams_experts(const ExpertsArgs& args, int rows);
// True if expert_tiles.h can do `rows` rows of the op.
bool tiles_experts(const ExpertsArgs& args, int rows);
bool streams_shared(const ExpertsArgs& args, const ExpertWeights& shared, int rows);
// Reserves its memory from `carver`.
void count_stream(const ExpertsArgs& args, int rows, bool shared, cuda_ops::Carver& carver);
// Computes the op's rows [first, first + rows), whose inputs are `from`. shared: if not null, the shared expert, which
// is added last. Otherwise `other`, [rows, hidden], is added last if it is not null.
void stream_experts(const Exec& exec, const ExpertsArgs& args, int first, int rows, const ExpertWeights* shared,
                    const StagedRows& from, const float* other, cuda_ops::Carver& carver);

}  // namespace sluice::cuda_sm90
