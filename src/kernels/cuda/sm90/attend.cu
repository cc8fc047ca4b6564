// attend_keys (kernels/attention.h) of the profile sm90: DeepSeek-V4's rows in official FP8 in its own order, all others
// in the order of the CPU.
#include <algorithm>
#include <bit>

#include "kernels/cuda/ops.h"
#include "kernels/cuda/sm90/attend_rows.h"
#include "kernels/cuda/sm90/ops.h"

namespace sluice::cuda_sm90 {
namespace {

bool takes(const Exec& exec, const AttendArgs& args) {
  const auto official = [&](const PlaneView& plane) {
    return plane.format.codec == RowCodec::kV4Fp8 && plane.format.dims == args.dims &&
           plane.format.rope_dims == kRopeDims;
  };
  return args.bf16 && args.window != nullptr && official(*args.window) &&
         (args.latent == nullptr || official(*args.latent)) && args.key_heads == 1 && args.value_offset == 0 &&
         args.value_dims == args.dims && (args.dims == 512 || args.dims == 128) && args.scale > 0.0F &&
         !exec.fault_chunk_anchored_splits;
}

// Segments of the row with the most.
int most_segments(const AttendArgs& args, std::span<const RowSpan> spans) {
  int most = 1;
  for (const RowSpan& span : spans) {
    const int end = span.first_position + span.rows;
    int latents = args.latent == nullptr ? 0 : end / args.tokens_per_row;
    if (args.selected != nullptr) latents = std::min(latents, args.max_selected);
    const int count = std::min(args.window_tokens, end) + latents;
    most = std::max(most, (count + kSegmentKeys - 1) / kSegmentKeys);
  }
  return most;
}

// A plane, checked; rows of its pages are 2^shift.
PlaneView aligned(const PlaneView& plane, int* shift) {
  SLUICE_CHECK(std::has_single_bit(static_cast<unsigned>(plane.rows_per_page)), "a power of two of rows in a page");
  *shift = std::countr_zero(static_cast<unsigned>(plane.rows_per_page));
  SLUICE_CHECK(reinterpret_cast<std::uintptr_t>(plane.base) % 16 == 0 && plane.page_bytes % 16 == 0,
               "pages at multiples of 16 bytes");
  return plane;
}

}  // namespace

void attend_keys(const Exec& exec, const AttendArgs& args) {
  if (args.spans.empty()) return;
  if (!takes(exec, args)) return cuda_ops::attend_keys(exec, args);
  const auto spans = args.step->host_spans.subspan(
      static_cast<std::size_t>(args.spans.data() - args.step->spans.data()), args.spans.size());
  AttendLaunch launch{};
  launch.args = args;
  launch.step = *args.step;
  launch.window = aligned(*args.window, &launch.window_shift);
  launch.has_latents = args.latent != nullptr;
  if (launch.has_latents) launch.latent = aligned(*args.latent, &launch.latent_shift);
  launch.spans = static_cast<int>(spans.size());
  launch.groups = (args.heads + kGroupHeads - 1) / kGroupHeads;
  launch.segments = most_segments(args, spans);
  launch.score_factor = args.scale * kLog2E;
  const int first = spans.front().row_begin, rows = spans.back().row_begin + spans.back().rows - first;
  if (launch.segments == 1) {
    launch.first_row = first;
    return attend_in_teams(exec, launch, rows);
  }
  const std::size_t row_bytes = static_cast<std::size_t>(launch.groups) * static_cast<std::size_t>(launch.segments) *
                                static_cast<std::size_t>(segment_floats(args.dims)) * sizeof(float);
  const std::size_t fit = cuda_ops::workspace_bytes(exec) / row_bytes;
  const int piece = static_cast<int>(std::clamp<std::size_t>(fit, 1, static_cast<std::size_t>(rows)));
  for (int done = 0; done < rows; done += piece) {
    const int count = std::min(piece, rows - done);
    launch.first_row = first + done;
    launch.partials =
        reinterpret_cast<float*>(cuda_ops::workspace(exec, static_cast<std::size_t>(count) * row_bytes));
    attend_in_teams(exec, launch, count);
    merge_segments(exec, launch, count);
  }
}

}  // namespace sluice::cuda_sm90
