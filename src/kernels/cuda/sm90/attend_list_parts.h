// attend_keys (kernels/ops/attention.h) of the profile sm90 for latents and for grouped-query attention, whose rows are
// in bf16 or of kMlaFp8 with `bf16`: its order, and the parts that its kernels (attend_heads.cu, attend_latent.cu)
// share.
//
// Items, blocks and segments: attend_lists.h. Operands are bf16: queries rounded; rows as they are, or codes times
// their scale, which is exact (a scale above 2^7 too; codes that stand for NaN count as 480). For a head of a row, from
// m = -inf, l_t = 0, v[d] = 0 in a segment:
//   s_i = steps over 16 dims, ascending, of bf16 products, each added to an f32 sum from 0 as the tensor core does;
//   m' = max(m, s_i of the block);  a = exp2((m - m') c);  w_i = exp2(fma(s_i, c, -(m' c))), where c = scale log2(e)
//     and exp2 is the GPU's ex2.approx.ftz.f32; items that the row does not see have w = 0;
//   l_t = fma(l_t, a, z_t), t in 0..3: a plain sum of w_i over items 8 j + 2 t, 8 j + 2 t + 1, j ascending;
//   v[d] = v[d] a, then steps over 16 items, ascending, of bf16 products of w_i, rounded, and values.
// l = (l_0 + l_1) + (l_2 + l_3). Segments merge ascending, from M = -inf, L = 0, V = 0: M' = max(M, m);
//   a = exp2((M - M') c), b = exp2((m - M') c);  L' = fma(b, l, a L);  V'[d] = fma(b, v[d], a V[d]).
// While m' or M' is -inf, 0 stands for it in the differences, so blocks and segments of which a row sees nothing change
// nothing, and rows share them. With a sink, L = L + exp2(fma(sink, log2(e), -(M c))); out[d] = V[d] (1 / L) + 0, which
// is 0 without any key.
// Used by kernels/cuda/sm90.
#pragma once

#include "kernels/cuda/sm90/attend_lists.h"
#include "kernels/cuda/sm90/attend_parts.h"
#include "kernels/cuda/sm90/bf16_codes.h"
#include "kernels/cuda/sm90/wgmma_bf16.h"

namespace sluice::cuda_sm90 {

inline constexpr int kListKeyHeads = 128;

// A launch: teams are [segment, the last first][key head][tile, the last first], `segments` of them at most. With
// segments 0 one team has all segments of a tile.
struct ListLaunch {
  AttendArgs args;  // its pointers to host memory are replaced by the fields below
  StepTables step;
  PlaneView plane;  // the plane of key head 0
  bool of_window;
  int page_shift;  // rows of a page are 2^shift
  int spans, first_row;
  QueryTiles tiles;
  int first_tile, tile_count, segments;
  float factor;     // scale * log2(e)
  bool values;      // true if args.out is written
  float* pairs;     // where the output goes as bf16; null: not wanted
  float* partials;  // [tile - first_tile][key head][segment] list_floats(): m and l of each query, then v
  std::byte* bases[kListKeyHeads];
};
SLUICE_HD constexpr int list_floats(int value_dims) {
  return kTileQueries * (2 + value_dims);
}

// The tile that a team works on.
struct ListTile {
  RowSpan span;
  int index;  // its number in the span; negative: no tile
};
struct ListItem {
  RowSpan span;
  int tile, key_head, segment;  // as the launch counts them; the segment is one of those that the tile's rows see
  int first_query, queries;
  ItemRange items;  // the items of all rows of the tile

  SLUICE_DEVICE int row(const ListLaunch& launch, int query) const {
    return span.row_begin + (first_query + query) / launch.tiles.sharing;
  }
  SLUICE_DEVICE int head(const ListLaunch& launch, int query) const {
    return key_head * launch.tiles.sharing + (first_query + query) % launch.tiles.sharing;
  }
  SLUICE_DEVICE float* partial(const ListLaunch& launch) const {
    const std::int64_t at =
        (std::int64_t{tile - launch.first_tile} * launch.args.key_heads + key_head) * launch.segments;
    return launch.partials + (at + segment) * list_floats(launch.args.value_dims);
  }
};

// Finds a tile; all threads of a block call it.
SLUICE_DEVICE void find_tile(const ListLaunch& launch, int tile, ListTile* to) {
  if (threadIdx.x == 0) to->index = -1;
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < launch.spans; i += static_cast<int>(blockDim.x)) {
    const RowSpan span = launch.args.spans[static_cast<std::size_t>(i)];
    const int index = tile - launch.tiles.first(span.row_begin - launch.first_row, i);
    if (index >= 0 && index < launch.tiles.count(span.rows)) *to = {span, index};
  }
  __syncthreads();
}
// Returns the items that a row sees. It may read results of kernels before.
SLUICE_DEVICE ItemRange items_of_row(const ListLaunch& launch, const RowSpan& span, int row) {
  const Position p = cuda_ops::position_of(span, row);
  if (launch.of_window) return {cuda_ops::window_first(launch.args, p), p + 1};
  return {0, cuda_ops::latent_count(launch.args, true, p, row)};
}
SLUICE_DEVICE ListItem item_of(const ListLaunch& launch, const ListTile& tile, int number, int key_head, int segment) {
  ListItem item;
  item.span = tile.span;
  item.tile = number, item.key_head = key_head, item.segment = segment;
  item.first_query = launch.tiles.first_query(tile.index);
  item.queries = launch.tiles.queries_of(tile.index, tile.span.rows);
  item.items = items_of_row(launch, tile.span, item.row(launch, 0));
  if (item.queries > 1) item.items.end = items_of_row(launch, tile.span, item.row(launch, item.queries - 1)).end;
  return item;
}
// A team's work, in its shared memory, where it uses no registers.
struct ListWork {
  ListTile tile;
  ListItem item;
};
// Finds a team's work; all threads of a block call it. Returns whether there is any.
SLUICE_DEVICE bool take_work(const ListLaunch& launch, int team, ListWork* work) {
  const int number = launch.first_tile + launch.tile_count - 1 - team % launch.tile_count;
  const int rest = team / launch.tile_count, key_head = rest % launch.args.key_heads;
  find_tile(launch, number, &work->tile);
  cuda_ops::wait_for_kernels();
  if (work->tile.index < 0) return false;
  if (threadIdx.x == 0) {
    ListItem item = item_of(launch, work->tile, number, key_head, launch.segments - 1 - rest / launch.args.key_heads);
    if (launch.segments > 0) {
      const int segment = item.items.first_segment() + item.segment;
      item.items = {max(item.items.begin, segment_begin(segment)), min(item.items.end, segment_begin(segment + 1))};
    }
    work->item = item;
  }
  __syncthreads();
  return launch.segments == 0 || !work->item.items.empty();
}

// Returns where the row of item `i` lies: the number of rows before those of its page, plus its number in the
// page; row_at() then gives its address.
SLUICE_DEVICE std::uint32_t place_of_item(const ListLaunch& launch, const ListItem& item, int i) {
  const AttendArgs& args = launch.args;
  int key = i;
  if (!launch.of_window) {
    key = args.selected == nullptr
              ? args.first_key + i
              : args.selected[static_cast<std::ptrdiff_t>(item.row(launch, 0)) * args.max_selected + i];
  }
  const int block = key >> launch.page_shift, at = key & ((1 << launch.page_shift) - 1);
  const std::int32_t page = launch.of_window ? launch.step.window_page(item.span, block).value
                                             : launch.step.latent_page(item.span, block).value;
  return static_cast<std::uint32_t>(page) << launch.page_shift | static_cast<std::uint32_t>(at);
}
SLUICE_DEVICE RowRef row_at(const ListLaunch& launch, const ListItem& item, std::uint32_t place) {
  const int at = static_cast<int>(place & ((1U << launch.page_shift) - 1));
  std::byte* start = launch.bases[item.key_head] + std::uint64_t{place >> launch.page_shift} * launch.plane.page_bytes;
  const RowFormat& format = launch.plane.format;
  return {start + at * format.data_bytes, start + (format.data_bytes << launch.page_shift) + at * format.scale_bytes};
}
SLUICE_DEVICE RowRef row_of_item(const ListLaunch& launch, const ListItem& item, int i) {
  return row_at(launch, item, place_of_item(launch, item, i));
}

// Asks for a row into the second cache: pages lie anywhere, and a team does not have room to copy as much ahead as
// memory takes to answer.
SLUICE_DEVICE void ask_for(const ListLaunch& launch, const RowRef& row) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(row.data), "r"(launch.plane.format.data_bytes)
               : "memory");
  if (launch.plane.format.scale_bytes > 0) asm volatile("prefetch.global.L2 [%0];" ::"l"(row.scales) : "memory");
}
// Factors that make bf16 of eight codes under a scale, which is a power of two.
struct CodeFactors {
  std::uint32_t first, second;  // each is a pair of equal bf16; second is 1 unless the scale is above 2^7
};
SLUICE_DEVICE CodeFactors code_factors(std::uint32_t scale) {
  const int exponent = static_cast<int>(scale >> 23 & 0xFFU) + 120;
  const auto pair = [](int e) { return static_cast<std::uint32_t>(e) * 0x00800080U; };
  return {pair(min(exponent, 254)), pair(127 + max(exponent - 254, 0))};
}
SLUICE_DEVICE uint4 eight_codes(const uint2& codes, const CodeFactors& factors) {
  std::uint32_t to[4];
  codes_to_bf16(codes.x, factors.first, to);
  codes_to_bf16(codes.y, factors.first, to + 2);
  if (factors.second != 0x3F803F80U) {
#pragma unroll
    for (std::uint32_t& two : to) two = multiply_pairs(two, factors.second);
  }
  return {to[0], to[1], to[2], to[3]};
}

// Rounds the queries of a tile into kTiles tiles of 64 dims; kThreads threads do it, of which this is number t.
template <int kTiles, int kThreads>
SLUICE_DEVICE void round_queries(const ListLaunch& launch, const ListItem& item, int first, int t, std::byte* tiles) {
  constexpr int kPieces = kTiles * 8;
  const int dims = launch.args.dims;
#pragma unroll 6
  for (int i = t; i < kTileQueries * kPieces; i += kThreads) {
    const int query = i / kPieces, piece = i % kPieces;
    uint4 pairs{0, 0, 0, 0};
    if (first + query < item.queries && piece * 8 < dims) {
      const std::ptrdiff_t head = static_cast<std::ptrdiff_t>(item.row(launch, first + query)) * launch.args.heads +
                                  item.head(launch, first + query);
      const auto* from = reinterpret_cast<const float4*>(launch.args.q + head * dims + piece * 8);
      const float4 a = from[0], b = from[1];
      pairs = {bf16_pair(a.x, a.y), bf16_pair(a.z, a.w), bf16_pair(b.x, b.y), bf16_pair(b.z, b.w)};
    }
    *reinterpret_cast<uint4*>(tiles + piece / 8 * kTileBytes + tile_piece(query, piece % 8)) = pairs;
  }
}

// Masks the scores of a block that begins with item `first`, registers of a product: those that a row does not see
// become -inf.
SLUICE_DEVICE void mask_scores(float (&s)[32], int first, const ItemRange (&seen)[2]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if (seen[h].begin <= first && first + kListBlock <= seen[h].end) continue;
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const int item = first + i / 2 * 8 + lane % 4 * 2 + i % 2;
      if (item < seen[h].begin || item >= seen[h].end) s[i / 2 * 4 + h * 2 + i % 2] = -INFINITY;
    }
  }
}
SLUICE_DEVICE float reference_of(float most) {
  return most == -INFINITY ? 0.0F : most;
}
// Computes the weights of head h of a thread's two, rounded, and the thread's part of their sum.
SLUICE_DEVICE float weigh_items(const float (&s)[32], int h, float factor, float most, std::uint32_t (&weights)[8]) {
  const float below = -(reference_of(most) * factor);
  float sum = 0.0F;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const float first = exp2_fast(std::fma(s[4 * i + 2 * h], factor, below));
    const float second = exp2_fast(std::fma(s[4 * i + 2 * h + 1], factor, below));
    weights[i] = bf16_pair(first, second);
    sum += first;
    sum += second;
  }
  return sum;
}
// Adds a block to a thread's two heads: the largest scores m and the sums l go on with it, and alpha becomes the factor
// of the values so far.
SLUICE_DEVICE void weigh_block(const float (&s)[32], float factor, float (&m)[2], float (&l)[2], float (&alpha)[2],
                               std::uint32_t (&weights)[2][8]) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float most = largest_score(s, h, m[h]);
    alpha[h] = exp2_fast((m[h] - reference_of(most)) * factor);
    m[h] = most;
    l[h] = std::fma(l[h], alpha[h], weigh_items(s, h, factor, most, weights[h]));
  }
}
// Returns the sum over the four threads of a head.
SLUICE_DEVICE float sum_of_weights(float l) {
  l += __shfl_xor_sync(0xFFFFFFFFU, l, 1);
  return l + __shfl_xor_sync(0xFFFFFFFFU, l, 2);
}

// The total of a head over all segments so far.
struct ListTotal {
  float m = -INFINITY, l = 0.0F, before = 0.0F,
        now = 0.0F;  // at a merge the values so far are multiplied by `before`, the segment's by `now`

  SLUICE_DEVICE void merge(float segment_m, float segment_l, float factor) {
    const float most = fmaxf(m, segment_m), reference = reference_of(most);
    before = exp2_fast((m - reference) * factor);
    now = exp2_fast((segment_m - reference) * factor);
    l = std::fma(now, segment_l, before * l);
    m = most;
  }
  // Returns the last factor of the values.
  SLUICE_DEVICE float last_factor(const ListLaunch& launch, int head) const {
    if (m == -INFINITY) return 0.0F;
    const float* sink = launch.args.sink;
    return 1.0F / (sink == nullptr ? l : l + exp2_fast(std::fma(sink[head], kLog2E, -(m * launch.factor))));
  }
};

// Merges the results of kernels that gave each segment a team; it is enqueued after them.
void merge_lists(const Exec& exec, const ListLaunch& launch);
// Attends to rows of up to 128 dims of keys and of values. `tiles` have 64 or 128 queries; with 128 each team has all
// segments.
void attend_heads(const Exec& exec, const ListLaunch& launch, std::int64_t teams);
// Attends to rows whose keys have 576 dims, of which the first 512 are values; `tiles` have 64 queries.
void attend_latent(const Exec& exec, const ListLaunch& launch, std::int64_t teams);

// The cut of a call of attend_list(): the fastest, or one for tests.
enum class ListCut { kFastest, kSegments, kTiles, kWideTiles };
// True if attend_list() can do the call.
bool takes_list(const Exec& exec, const AttendArgs& args);
// True if it writes out_rows as bf16, too.
bool rounds_list(const AttendArgs& args);
void attend_list(const Exec& exec, const AttendArgs& args, ListCut cut);

}  // namespace sluice::cuda_sm90
