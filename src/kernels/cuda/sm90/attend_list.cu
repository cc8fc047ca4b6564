// attend_keys() in the order of attend_list_parts.h: the cut of a call, and the merge of segments that had a team each.
// Used by attend_check.cu, attend_heads.cu, attend_latent.cu and sm90_attend.cu.
#include <algorithm>
#include <bit>

#include "kernels/cuda/sm90/attend_list_parts.h"
#include "kernels/cuda/sm90/sm90_ops.h"

namespace sluice::cuda_sm90 {
namespace {

using cuda_ops::Team;

constexpr int kLatentDims = 576, kLatentValues = 512, kMostHeadDims = 128;

// A team has a query of a tile, a thread some of its value dims.
struct MergeLists {
  static constexpr int kThreads = 128;
  ListLaunch launch;

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    extern __shared__ __align__(16) std::byte memory[];
    auto* tile = reinterpret_cast<ListTile*>(memory);
    const int query = team.index % kTileQueries, rest = team.index / kTileQueries;
    const int number = launch.first_tile + rest % launch.tile_count, key_head = rest / launch.tile_count;
    find_tile(launch, number, tile);
    if (tile->index < 0) return;
    ListItem item = item_of(launch, *tile, number, key_head, 0);
    if (query >= item.queries) return;
    const int dims = launch.args.value_dims, t = static_cast<int>(threadIdx.x);
    const float* parts = item.partial(launch);
    ListTotal total;
    float v[4] = {};
#pragma unroll 8
    for (int s = 0; s < item.items.segments(); ++s) {
      const float* part = parts + static_cast<std::int64_t>(s) * list_floats(dims);
      total.merge(part[query], part[kTileQueries + query], launch.factor);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int d = t + i * kThreads;
        if (d < dims) v[i] = std::fma(total.now, part[2 * kTileQueries + query * dims + d], total.before * v[i]);
      }
    }
    const int head = item.head(launch, query);
    const float last = total.last_factor(launch, head);
    const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(item.row(launch, query)) * launch.args.heads + head;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int d = t + i * kThreads;
      if (d >= dims) continue;
      const float value = v[i] * last + 0.0F;
      if (launch.values) launch.args.out[at * dims + d] = value;
      if (launch.pairs != nullptr) reinterpret_cast<std::uint16_t*>(launch.pairs)[at * dims + d] = to_bf16(value).bits;
    }
  }
};

bool is_latent(const AttendArgs& args) {
  return args.dims == kLatentDims && args.value_dims == kLatentValues;
}
const PlaneView* planes_of(const AttendArgs& args) {
  return args.latent != nullptr ? args.latent : args.window;
}
std::span<const RowSpan> host_spans(const AttendArgs& args) {
  return args.step->host_spans.subspan(static_cast<std::size_t>(args.spans.data() - args.step->spans.data()),
                                       args.spans.size());
}

// Returns the items that all rows of a span see together.
ItemRange items_of_span(const AttendArgs& args, const RowSpan& span) {
  const int end = span.first_position + span.rows;
  if (args.latent == nullptr) {
    return {std::min(std::max(args.first_key, span.first_position - args.window_tokens + 1), span.first_position), end};
  }
  const int latents = std::max(0, end / args.tokens_per_row - args.first_key);
  return {0, args.selected != nullptr ? std::min(latents, args.max_selected) : latents};
}

QueryTiles tiles_of(const AttendArgs& args, std::span<const RowSpan> spans, int queries) {
  const int sharing = args.heads / args.key_heads;
  const bool by_row = args.selected != nullptr || sharing % queries == 0 ||
                      std::ranges::all_of(spans, [](const RowSpan& span) { return span.rows == 1; });
  return {sharing, queries, by_row};
}
int tile_count(const QueryTiles& tiles, std::span<const RowSpan> spans) {
  const int row = spans.back().row_begin - spans.front().row_begin;
  return tiles.first(row, static_cast<int>(spans.size()) - 1) + tiles.count(spans.back().rows);
}

// The cut of a call: whether each segment has a team of its own, and how many queries a tile has.
struct Cut {
  int queries;
  bool by_segments;
};
// Teams take about as long as they have segments, and merging costs an eighth of that. Latents are the exception, as a
// team with several segments merges them slowly.
Cut fastest_cut(const Exec& exec, const AttendArgs& args, std::span<const RowSpan> spans, int segments) {
  const int all = cuda_ops::processors(exec);
  const bool latent = is_latent(args), coded = planes_of(args)->format.codec == RowCodec::kMlaFp8;
  const auto teams = [&](int queries) {
    return std::int64_t{tile_count(tiles_of(args, spans, queries), spans)} * args.key_heads;
  };
  const auto rounds = [&](std::int64_t count, int at_once) { return (count + at_once - 1) / at_once; };
  const std::int64_t tiles = teams(kTileQueries), wide = teams(2 * kTileQueries);
  if (!latent && !coded && args.selected == nullptr && wide >= all && 3 * wide <= 2 * tiles) {
    return {2 * kTileQueries, false};
  }
  const int at_once = latent ? all : 2 * all;
  const std::int64_t whole = rounds(tiles, at_once) * segments, apart = rounds(tiles * segments, at_once);
  const bool cut = segments > 1 && (latent && tiles <= 2 * all ? whole >= apart : whole * 8 > apart * 9);
  return {kTileQueries, cut};
}

}  // namespace

void merge_lists(const Exec& exec, const ListLaunch& launch) {
  cuda_ops::launch(exec, std::int64_t{launch.tile_count} * launch.args.key_heads * kTileQueries, MergeLists{launch},
                   sizeof(ListTile));
}

bool takes_list(const Exec& exec, const AttendArgs& args) {
  if (!args.bf16 || exec.fault_chunk_anchored_splits || (args.latent == nullptr) == (args.window == nullptr))
    return false;
  const PlaneView& plane = *planes_of(args);
  const RowFormat& format = plane.format;
  const bool coded = format.codec == RowCodec::kMlaFp8;
  if (format.codec != RowCodec::kBf16 && !coded) return false;
  const auto whole = [](int dims) { return dims > 0 && dims <= kMostHeadDims && dims % 8 == 0; };
  const bool shape = is_latent(args) ? args.value_offset == 0 && args.key_heads == 1 && format.dims == kLatentDims &&
                                           (!coded || format.rope_dims == 64)
                                     : whole(args.dims) && whole(args.value_dims);
  return shape && (!coded || (format.dims - format.rope_dims) % 16 == 0) && format.data_bytes % 16 == 0 &&
         args.key_heads <= kListKeyHeads && args.scale > 0.0F && (args.selected == nullptr || args.latent != nullptr);
}

bool rounds_list(const AttendArgs& args) {
  const Rows& rows = args.out_rows;
  return !is_latent(args) && args.out_rope.table == nullptr && args.query_heads == nullptr &&
         args.spans.data() == args.step->spans.data() && rows.values == args.out && rows.parts == 1 &&
         rows.columns == args.heads * args.value_dims && rows.ld == rows.columns;
}

void attend_list(const Exec& exec, const AttendArgs& args, ListCut cut) {
  const auto spans = host_spans(args);
  ListLaunch launch{};
  launch.args = args;
  launch.pairs = rounds_list(args) ? args.out_rows.form(InputForm::kBf16) : nullptr;
  launch.values = launch.pairs == nullptr || !args.forms_only;
  launch.step = *args.step;
  const PlaneView* planes = planes_of(args);
  launch.plane = *planes;
  for (int k = 0; k < args.key_heads; ++k) {
    SLUICE_CHECK(planes[k].page_bytes == planes->page_bytes && planes[k].page_bytes % 16 == 0 &&
                     reinterpret_cast<std::uintptr_t>(planes[k].base) % 16 == 0,
                 "planes of key heads that are alike, pages at multiples of 16 bytes");
    launch.bases[k] = planes[k].base;
  }
  SLUICE_CHECK(std::has_single_bit(static_cast<unsigned>(planes->rows_per_page)), "a power of two of rows in a page");
  launch.page_shift = std::countr_zero(static_cast<unsigned>(planes->rows_per_page));
  launch.of_window = args.latent == nullptr;
  launch.spans = static_cast<int>(spans.size()), launch.first_row = spans.front().row_begin;
  launch.factor = args.scale * kLog2E;
  int segments = 1;
  for (const RowSpan& span : spans) segments = std::max(segments, items_of_span(args, span).segments());
  const Cut chosen = cut == ListCut::kFastest
                         ? fastest_cut(exec, args, spans, segments)
                         : Cut{cut == ListCut::kWideTiles ? 2 * kTileQueries : kTileQueries, cut == ListCut::kSegments};
  launch.tiles = tiles_of(args, spans, chosen.queries);
  launch.segments = chosen.by_segments ? segments : 0;
  const int tiles = tile_count(launch.tiles, spans);
  const std::size_t tile_bytes = sizeof(float) * static_cast<std::size_t>(list_floats(args.value_dims)) *
                                 static_cast<std::size_t>(args.key_heads) * static_cast<std::size_t>(segments);
  const std::size_t fit = chosen.by_segments ? cuda_ops::workspace_bytes(exec) / tile_bytes : INT32_MAX;
  if (fit == 0) launch.segments = 0;  // the workspace has no room for one tile's segments
  const int piece = fit == 0 ? tiles : static_cast<int>(std::min<std::size_t>(fit, static_cast<std::size_t>(tiles)));
  for (launch.first_tile = 0; launch.first_tile < tiles; launch.first_tile += piece) {
    launch.tile_count = std::min(piece, tiles - launch.first_tile);
    if (launch.segments > 0) {
      launch.partials =
          reinterpret_cast<float*>(cuda_ops::workspace(exec, tile_bytes * static_cast<std::size_t>(launch.tile_count)));
    }
    const std::int64_t teams = std::int64_t{launch.tile_count} * args.key_heads * std::max(1, launch.segments);
    is_latent(args) ? attend_latent(exec, launch, teams) : attend_heads(exec, launch, teams);
    if (launch.segments > 0) merge_lists(exec, launch);
  }
}

}  // namespace sluice::cuda_sm90
