// The scalar kernels: each follows the order in its op's header literally, and is the oracle of every other ISA.
// Used by kernels/cpu, kernels/cpu/scalar and kernels/ref.
#pragma once

#include "kernels/common/index_tile.h"
#include "kernels/ops/ops.h"

namespace sluice::ref {

void rms_norm(const RmsNormArgs& args, int begin, int end);
void layer_norm(const LayerNormArgs& args, int begin, int end);
void rope_heads(const RopeHeadsArgs& args, int begin, int end);
void hadamard(const HadamardArgs& args, int begin, int end);
void hc_product(const HcMixArgs& args, int begin, int end);
void hc_finish(const HcMixArgs& args, int begin, int end);
void hc_collapse(const HcCollapseArgs& args, int begin, int end);
void hc_expand(const HcExpandArgs& args, int begin, int end);
void route(const RouteArgs& args, int begin, int end);
void attend(const AttendArgs& args, int span, int begin, int end, int head_begin, int head_end);
void attend_expanded(const AttendExpandedArgs& args, int head, int begin, int end);
void merge_attention(const MergeAttentionArgs& args, int begin, int end);
void index_scores(const IndexTile& tile);
void keep_best(IndexCandidates& candidates, int k);
void compress(const CompressArgs& args, int span, int begin, int end);
// sample() of kernels/ops/sample.h for rows [begin, end): its oracle. sample() uses no kernel of a table but
// sample_weights.
void sample(const SampleArgs& args, int begin, int end);
std::uint64_t sample_weights(const SampleWeightsArgs& args);
void encode_rows(const RowFormat& format, const float* x, std::ptrdiff_t ldx, const RowRef* rows, int count);
void decode_rows(const RowFormat& format, const RowRef* rows, int count, float* x, std::ptrdiff_t ldx);
void simulate_rows(RowCodec codec, int dims, int rope_dims, float* x, std::ptrdiff_t ldx, int count);

}  // namespace sluice::ref
