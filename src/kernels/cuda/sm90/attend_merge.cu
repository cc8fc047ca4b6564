// Rows of attention over official FP8 rows that have several segments of keys: their partial sums are merged.
#include "kernels/cuda/sm90/attend_rows.h"

namespace sluice::cuda_sm90 {
namespace {

using cuda_ops::Team;

// Segments of a row in ascending order; a team has a head, a thread some of its dims.
struct MergeSegments {
  static constexpr int kThreads = 128;
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
    float m = parts[of_group], l = parts[kGroupHeads + of_group], v[4];
    const int t = static_cast<int>(threadIdx.x), mine = dims / kThreads;
    const auto value = [&](const float* part, int i) { return part[kPartialSums + of_group * dims + t + i * kThreads]; };
#pragma unroll
    for (int i = 0; i < 4; ++i) v[i] = i < mine ? value(parts, i) : 0.0F;
    for (int s = 1; s < list.segments(); ++s) {
      const float* part = parts + s * segment_floats(dims);
      const float most = fmaxf(m, part[of_group]);
      const float a = exp2_fast((m - most) * launch.score_factor);
      const float b = exp2_fast((part[of_group] - most) * launch.score_factor);
      l = std::fma(b, part[kGroupHeads + of_group], a * l);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (i < mine) v[i] = std::fma(b, value(part, i), a * v[i]);
      }
      m = most;
    }
    const float factor = 1.0F / with_sink(launch, head, m, l);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i < mine) out_of(launch, row, head, dims)[t + i * kThreads] = v[i] * factor;
    }
  }
};

}  // namespace

void merge_segments(const Exec& exec, const AttendLaunch& launch, int rows) {
  cuda_ops::launch(exec, std::int64_t{rows} * launch.args.heads, MergeSegments{launch, launch.args.dims});
}

}  // namespace sluice::cuda_sm90
