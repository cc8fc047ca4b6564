// index_select and select_entries (kernels/ops/indexer.h) of the profile sm90: keys in index-fp4 and index-fp8 in an order of
// its own, all others in the order of the CPU.
// Called through the table of ops (kernels/ops/ops.h).
#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/sm90/index_rows.h"
#include "kernels/cuda/sm90/sm90_ops.h"

namespace sluice::cuda_sm90 {
namespace {

// Decides by the model and its cache, never by the contents of a step.
bool takes(const IndexSelectArgs& args) {
  const PlaneView& keys = *args.keys;
  const bool codec = keys.format.codec == RowCodec::kIndexFp4 || keys.format.codec == RowCodec::kIndexFp8;
  return codec && args.dims == kIndexDims && keys.format.dims == kIndexDims && args.heads <= kIndexHeads &&
         args.top_k > 0 && args.top_k <= kIndexCandidates / 2 && keys.rows_per_page >= 32 &&
         std::has_single_bit(static_cast<unsigned>(keys.rows_per_page));
}

// True if the first kernel can also do the work before the scores.
bool forms_queries(const IndexSelectArgs& args) {
  const Rotation& rope = args.query_rope;
  const bool pairs = rope.half_split ? rope.dims == 64 && rope.offset % 32 == 0 : (rope.dims | rope.offset) % 4 == 0;
  const RowCodec codec = args.query_simulation;
  return args.scores == nullptr && (rope.table == nullptr || pairs) &&
         (codec == RowCodec::kF32 || codec == RowCodec::kBf16 || codec == RowCodec::kIndexFp4 ||
          codec == RowCodec::kIndexFp8);
}

std::int64_t teams_of(const IndexLaunch& launch) {
  std::int64_t teams = 0;
  for (const RowSpan& span : launch.step.host_spans) {
    teams += rows_of_span(launch, span).teams;
  }
  return teams;
}

// Returns the units of a piece. There should be about as many teams as run at once, one a multiprocessor, in few
// rounds. A team needs as long before its first key as for a unit.
int choose_piece(IndexLaunch launch, int most, int processors) {
  const auto units_of = [](int entries) { return (entries + kIndexUnit - 1) / kIndexUnit; };
  launch.piece_units = 1;
  const std::int64_t all = std::max<std::int64_t>(1, teams_of(launch));
  const int least = (units_of(most) + kMostIndexPieces - 1) / kMostIndexPieces;
  // Long rows keep twice as many groups as they select entries.
  const int groups = index_groups(1), wanted = (2 * launch.args.top_k + groups - 1) / groups;
  int longest = units_of(most);
  for (const RowSpan& span : launch.step.host_spans) {
    if (wanted == 1 || launch.visible(span, span.row_begin + span.rows - 1) <= kIndexCandidates) continue;
    const int first = std::max(units_of(launch.visible(span, span.row_begin)), kIndexCandidates / kIndexUnit);
    longest = std::min(longest, std::max(1, first / wanted));
  }
  const int even = static_cast<int>(std::min<std::int64_t>((all + processors - 1) / processors, longest));
  int best = std::max(least, 1);
  std::int64_t best_time = INT64_MAX;
  for (const int eighths : {16, 12, 10, 9, 8, 6, 5, 4, 3}) {
    const int about = std::clamp((even * eighths + 7) / 8, std::max(least, 1), std::max({least, longest, 1}));
    const int units = std::max(units_of(most), 1), pieces = (units + about - 1) / about;
    launch.piece_units = (units + pieces - 1) / pieces;  // so that the longest row is cut into equal pieces
    const std::int64_t rounds = (teams_of(launch) + processors - 1) / processors;
    const std::int64_t time = rounds * (launch.piece_units + 1);
    if (time < best_time) best = launch.piece_units, best_time = time;
  }
  return best;
}

// Returns two, for index-fp4, if that leaves a team for each multiprocessor: a team makes each key bf16 once.
int choose_rows(const IndexSelectArgs& args, int processors) {
  if (args.keys->format.codec != RowCodec::kIndexFp4) return 1;
  int teams = 0;
  for (const RowSpan& span : args.step->host_spans) teams += (span.rows + kMostIndexRows - 1) / kMostIndexRows;
  return teams >= processors && 4 * teams <= 3 * args.rows ? kMostIndexRows : 1;
}

void select(const Exec& exec, const IndexSelectArgs& args, bool forms) {
  IndexLaunch launch{};
  launch.args = args;
  launch.step = *args.step;
  launch.keys = *args.keys;
  SLUICE_CHECK(reinterpret_cast<std::uintptr_t>(launch.keys.base) % 16 == 0 && launch.keys.page_bytes % 16 == 0 &&
                   reinterpret_cast<std::uintptr_t>(args.q) % 16 == 0,
               "queries, and pages of keys, at multiples of 16 bytes");
  SLUICE_CHECK(launch.keys.page_bytes <= UINT32_MAX, "pages as kernels take them");
  launch.page_shift = std::countr_zero(static_cast<unsigned>(launch.keys.rows_per_page));
  launch.spans = static_cast<int>(args.step->host_spans.size());
  launch.rows = args.rows;
  launch.forms_queries = forms;
  launch.hadamard = static_cast<float>(1.0 / std::sqrt(static_cast<double>(kIndexDims)));
  int most = 0;
  for (const RowSpan& span : args.step->host_spans) {
    most = std::max(most, launch.visible(span, span.row_begin + span.rows - 1));
  }
  SLUICE_CHECK(most <= kMostIndexEntries, "no more entries of a row than a choice takes");
  launch.stride = (most + kIndexTile - 1) / kIndexTile * kIndexTile;
  const bool any_long = most > kIndexCandidates;
  const std::size_t row_keys = static_cast<std::size_t>(launch.stride) + (any_long ? kMostIndexGroups : 0);
  const std::size_t fit = cuda_ops::workspace_bytes(exec) / (std::max<std::size_t>(row_keys, 1) * sizeof(std::int32_t));
  const int at_once = static_cast<int>(std::min<std::size_t>(fit, static_cast<std::size_t>(args.rows)));
  const int processors = cuda_ops::processors(exec);
  launch.rows_at_once = choose_rows(args, processors);
  launch.piece_units = choose_piece(launch, most, processors);
  for (int done = 0; done < args.rows; done += at_once) {
    launch.first_row = done, launch.rows = std::min(at_once, args.rows - done);
    const auto rows = static_cast<std::size_t>(launch.rows);
    launch.order_keys =
        reinterpret_cast<std::int32_t*>(cuda_ops::workspace(exec, rows * row_keys * sizeof(std::int32_t)));
    launch.maxima = any_long ? launch.order_keys + launch.rows * launch.stride : nullptr;
    score_entries(exec, launch, teams_of(launch));
    int cluster = 1;
    while (cluster < 8 && cluster * kIndexCandidates < most && 2 * cluster * launch.rows <= processors) cluster *= 2;
    choose_entries(exec, launch, most, cluster);
  }
}

}  // namespace

void select_entries(const Exec& exec, const IndexSelectArgs& args) {
  if (args.rows == 0) return;
  if (!takes(args)) return cuda_ops::select_entries(exec, args);
  select(exec, args, false);
}

void index_select(const Exec& exec, const IndexSelectArgs& args) {
  if (args.rows == 0) return;
  if (!takes(args) || !forms_queries(args)) return composed::index_select(exec, args);
  select(exec, args, true);
}

}  // namespace sluice::cuda_sm90
