// Merges the partial sums of rows of attention over official FP8 rows that have several segments of keys.
// Used by attend_parts.h, attend_queries.cu and index_scores.cu.
#include "kernels/cuda/sm90/attend_rows.h"

namespace sluice::cuda_sm90 {
namespace {

using cuda_ops::Team;

// Merges the segments of a row in ascending order; a team has a head, a thread some of its dims.
struct MergeSegments {
  static constexpr int kThreads = 128, kMostPairs = 2;  // most pairs of dims of a thread
  AttendLaunch launch;
  int dims;

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    const int item = team.index / launch.args.heads, head = team.index % launch.args.heads;
    const int row = launch.first_row + item;
    const RowSpan span = cuda_ops::span_of_row(launch.args.spans.data(), launch.spans, row);
    const KeyList list = key_list(launch, span, row);
    if (list.count <= kSegmentKeys) return;
    const float* parts = launch.partials + (static_cast<std::int64_t>(item) * launch.groups + head / kGroupHeads) *
                                               launch.segments * segment_floats(dims);
    const int of_group = head % kGroupHeads;
    float m = parts[of_group], l = parts[kGroupHeads + of_group];
    float2 v[kMostPairs];
    const int t = static_cast<int>(threadIdx.x);
    const auto dim = [&](int i) { return 2 * (t + i * kThreads); };
    const auto values = [&](const float* part, int i) {
      return *reinterpret_cast<const float2*>(part + kPartialSums + of_group * dims + dim(i));
    };
#pragma unroll
    for (int i = 0; i < kMostPairs; ++i) v[i] = dim(i) < dims ? values(parts, i) : float2{0.0F, 0.0F};
    for (int s = 1; s < list.segments(); ++s) {
      const float* part = parts + s * segment_floats(dims);
      const float most = fmaxf(m, part[of_group]);
      const float a = exp2_fast((m - most) * launch.score_factor);
      const float b = exp2_fast((part[of_group] - most) * launch.score_factor);
      l = std::fma(b, part[kGroupHeads + of_group], a * l);
#pragma unroll
      for (int i = 0; i < kMostPairs; ++i) {
        if (dim(i) >= dims) continue;
        const float2 more = values(part, i);
        v[i] = {std::fma(b, more.x, a * v[i].x), std::fma(b, more.y, a * v[i].y)};
      }
      m = most;
    }
    const float factor = 1.0F / with_sink(launch, head, m, l);
    const float* turns = turns_of(launch, cuda_ops::position_of(span, row));
#pragma unroll
    for (int i = 0; i < kMostPairs; ++i) {
      if (dim(i) >= dims) continue;
      const int rotary = dim(i) - (dims - kRopeDims);
      put_output(launch, row, head, dims, dim(i), v[i].x * factor, v[i].y * factor,
                 turns != nullptr && rotary >= 0 ? turns + rotary : nullptr);
    }
  }
};

}  // namespace

void merge_segments(const Exec& exec, const AttendLaunch& launch, int rows) {
  cuda_ops::launch(exec, std::int64_t{rows} * launch.args.heads, MergeSegments{launch, launch.args.dims});
}

}  // namespace sluice::cuda_sm90
