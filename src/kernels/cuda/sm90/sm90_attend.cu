// attend and attend_keys (kernels/ops/attention.h) of the profile sm90: DeepSeek-V4's rows in official FP8 in the order of
// attend_rows.h, latents and the rows of grouped-query attention in that of attend_list_parts.h, all others in the
// order of the CPU.
// Called through the table of ops (kernels/ops/ops.h).
#include <algorithm>
#include <bit>

#include "kernels/composed/composed_rows.h"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/shared/shared_ops.h"
#include "kernels/cuda/sm90/attend_list_parts.h"
#include "kernels/cuda/sm90/sm90_ops.h"

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

// True if the kernels can also do the work that follows.
bool finishes(const AttendArgs& args) {
  const Rotation& rope = args.out_rope;
  const Rows& rows = args.out_rows;
  const bool rotary = !rope.half_split && rope.dims == kRopeDims && rope.offset + rope.dims == args.dims;
  const bool whole = rows.values == nullptr || (rows.values == args.out && rows.columns % 2 == 0 &&
                                                std::ptrdiff_t{rows.columns} * rows.parts == rows.ld &&
                                                rows.ld == std::ptrdiff_t{args.heads} * args.dims);
  return args.query_heads == nullptr && args.spans.data() == args.step->spans.data() &&
         (rope.table == nullptr || rotary) && whole;
}

// True if form_queries() can do the work before.
bool forms_queries(const AttendArgs& args) {
  const Rotation& rope = args.query.rope;
  const bool rotary = !rope.half_split && rope.dims == kRopeDims && rope.offset + rope.dims == args.dims;
  return args.query.norm == nullptr && rope.table != nullptr && rotary;
}

// Returns the number of keys of the row with the most.
int most_keys(const AttendArgs& args, std::span<const RowSpan> spans) {
  int most = 1;
  for (const RowSpan& span : spans) {
    const int end = span.first_position + span.rows;
    int latents = args.latent == nullptr ? 0 : end / args.tokens_per_row;
    if (args.selected != nullptr) latents = std::min(latents, args.max_selected);
    most = std::max(most, std::min(args.window_tokens, end) + latents);
  }
  return most;
}

// Returns the blocks that have a team's work, so that most processors have some. Clusters lie in groups of 16 or 18
// processors: of 132, at most 66 clusters of 2, 30 of 4 and 15 of 8 run at once.
int fastest_cluster(const Exec& exec, const AttendArgs& args, std::int64_t teams, int keys) {
  const int blocks = (std::min(keys, kSegmentKeys) + kBlockKeys - 1) / kBlockKeys, all = cuda_ops::processors(exec);
  if (args.dims != 512) return 1;
  if (blocks > 4 && teams * 9 <= all) return 8;
  if (teams * 22 <= all * 5) return 4;
  return teams * 2 <= all ? 2 : 1;
}

// Returns a plane, checked; rows of its pages are 2^shift.
PlaneView aligned(const PlaneView& plane, int* shift) {
  SLUICE_CHECK(std::has_single_bit(static_cast<unsigned>(plane.rows_per_page)), "a power of two of rows in a page");
  *shift = std::countr_zero(static_cast<unsigned>(plane.rows_per_page));
  SLUICE_CHECK(reinterpret_cast<std::uintptr_t>(plane.base) % 16 == 0 && plane.page_bytes % 16 == 0,
               "pages at multiples of 16 bytes");
  return plane;
}

// Makes all forms but bf16, which attention itself makes.
void make_other_forms(const Exec& exec, const AttendArgs& args) {
  Rows others = args.out_rows;
  others.forms[static_cast<std::size_t>(InputForm::kBf16)] = nullptr;
  composed::make_forms(exec, args.rows, others);
}

}  // namespace

int attend_official(const Exec& exec, const AttendArgs& args, int cluster, bool formed) {
  const auto spans = args.step->host_spans.subspan(
      static_cast<std::size_t>(args.spans.data() - args.step->spans.data()), args.spans.size());
  const int keys = most_keys(args, spans);
  AttendLaunch launch{};
  launch.args = args;
  launch.step = *args.step;
  launch.window = aligned(*args.window, &launch.window_shift);
  launch.has_latents = args.latent != nullptr;
  if (launch.has_latents) launch.latent = aligned(*args.latent, &launch.latent_shift);
  launch.spans = static_cast<int>(spans.size());
  launch.groups = (args.heads + kGroupHeads - 1) / kGroupHeads;
  launch.segments = (keys + kSegmentKeys - 1) / kSegmentKeys;
  launch.score_factor = args.scale * kLog2E;
  launch.pairs = args.out_rows.form(InputForm::kBf16);
  const auto forms = std::ranges::count_if(args.out_rows.forms, [](const float* form) { return form != nullptr; });
  launch.values = !args.forms_only || launch.pairs == nullptr || forms > 1;  // other input forms are made from values
  const int first = spans.front().row_begin, rows = spans.back().row_begin + spans.back().rows - first;
  const std::ptrdiff_t row_values = std::ptrdiff_t{args.heads} * args.dims;
  launch.queries = reinterpret_cast<const std::byte*>(args.q);
  launch.query_bytes = formed ? args.dims * std::ptrdiff_t{sizeof(float)} : query_record_bytes(args.dims);
  const std::size_t query_bytes = formed ? 0 : static_cast<std::size_t>(args.heads * launch.query_bytes);
  const std::size_t partial_bytes =
      launch.segments == 1 ? 0
                           : static_cast<std::size_t>(launch.groups) * static_cast<std::size_t>(launch.segments) *
                                 static_cast<std::size_t>(segment_floats(args.dims)) * sizeof(float);
  const std::size_t row_bytes = query_bytes + partial_bytes;
  const std::size_t fit = row_bytes == 0 ? INT32_MAX : cuda_ops::workspace_bytes(exec) / row_bytes;
  const int piece = static_cast<int>(std::clamp<std::size_t>(fit, 1, static_cast<std::size_t>(rows)));
  for (int done = 0; done < rows; done += piece) {
    const int count = std::min(piece, rows - done);
    launch.first_row = first + done;
    std::byte* const work = cuda_ops::workspace(exec, static_cast<std::size_t>(count) * row_bytes);
    if (launch.segments > 1) launch.partials = reinterpret_cast<float*>(work);
    if (!formed) {
      std::byte* const queries = work + static_cast<std::size_t>(count) * partial_bytes;
      form_queries(exec, {args.q + launch.first_row * row_values, queries, launch.query_bytes, count, args.heads},
                   args.dims);
      launch.queries = queries, launch.query_row = launch.first_row;
    }
    const std::int64_t teams = std::int64_t{count} * launch.groups * launch.segments;
    launch.cluster = cluster == 0 ? fastest_cluster(exec, args, teams, keys) : cluster;
    launch.cluster == 1 ? attend_in_teams(exec, launch, teams) : attend_in_clusters(exec, launch, teams);
    if (launch.segments > 1) merge_segments(exec, launch, count);
  }
  return launch.cluster;
}

void attend_keys(const Exec& exec, const AttendArgs& args) {
  if (args.spans.empty()) return;
  AttendArgs keys = args;
  keys.out_rope = {}, keys.out_rows = {}, keys.forms_only = false;
  if (takes_list(exec, keys)) return attend_list(exec, keys, ListCut::kFastest);
  if (!takes(exec, args)) return cuda_ops::attend_keys(exec, args);
  attend_official(exec, keys, 0);
}

void attend(const Exec& exec, const AttendArgs& args) {
  if (args.spans.empty()) return;
  if (takes_list(exec, args) && rounds_list(args)) {
    composed::form_heads(exec, args.query, args.rows, args.heads, args.dims, args.q,
                         std::ptrdiff_t{args.heads} * args.dims, args.step->positions.data());
    attend_list(exec, args, ListCut::kFastest);
    return make_other_forms(exec, args);
  }
  if (!takes(exec, args) || !finishes(args)) return composed::attend(exec, args);
  const Position* positions = args.step->positions.data();
  const bool forms = args.forms_only && forms_queries(args);
  if (forms) {
    const QueryForm form{args.q,
                         reinterpret_cast<std::byte*>(args.q),
                         args.dims * std::ptrdiff_t{sizeof(float)},
                         args.rows,
                         args.heads,
                         args.query.eps,
                         args.query.rope.table,
                         positions};
    form_queries(exec, form, args.dims, chose_last(exec));
  } else {
    composed::form_heads(exec, args.query, args.rows, args.heads, args.dims, args.q,
                         std::ptrdiff_t{args.heads} * args.dims, positions);
  }
  attend_official(exec, args, 0, forms);
  make_other_forms(exec, args);
}

}  // namespace sluice::cuda_sm90
