// The parts of the kernels of attention over official FP8 rows (attend_team.cu, attend_cluster.cu). Groups are 128
// threads, four warps; a group that loads has a quad of threads for each of 32 keys.
// Used by attend_cluster.cu, attend_list_parts.h and attend_team.cu.
#pragma once

#include "kernels/cuda/sm90/attend_rows.h"

namespace sluice::cuda_sm90 {

inline constexpr int kGroupThreads = 128, kHalfKeys = 32;
inline constexpr int kCopyBytes = kGroupThreads * 16;  // a copy: 64 bytes of each of 32 rows

// Waits until all threads of a group have come here; kBarrier is its own.
template <int kBarrier>
SLUICE_DEVICE void meet_group() {
  asm volatile("bar.sync %0, 128;" ::"n"(kBarrier) : "memory");
}
template <int kBarrier>
SLUICE_DEVICE bool any_of_group(bool mine) {
  int any;
  asm volatile(
      "{\n.reg .pred mine, any;\nsetp.ne.s32 mine, %1, 0;\nbar.red.or.pred any, %2, 128, mine;\n"
      "selp.s32 %0, 1, 0, any;\n}"
      : "=r"(any)
      : "r"(mine ? 1 : 0), "n"(kBarrier)
      : "memory");
  return any != 0;
}

// Heads of a row, and a segment of its keys: [begin, end) of the list.
struct AttendItem {
  KeyList list;
  int index, row, first_head, begin, end;
  SLUICE_DEVICE int keys() const { return end - begin; }
  SLUICE_DEVICE int blocks() const { return (end - begin + kBlockKeys - 1) / kBlockKeys; }
  SLUICE_DEVICE bool alone() const { return list.count <= kSegmentKeys; }  // true if the row has one segment only
  SLUICE_DEVICE std::int64_t partial(int dims) const { return index * segment_floats(dims); }
};
// Returns item `index`, without its keys.
SLUICE_DEVICE AttendItem place_of(const AttendLaunch& launch, int index) {
  const int of_row = index / launch.segments;
  AttendItem item;
  item.index = index;
  item.row = launch.first_row + of_row / launch.groups;
  item.begin = index % launch.segments * kSegmentKeys;
  item.first_head = of_row % launch.groups * kGroupHeads;
  return item;
}
// Finds the span of a row; all threads of a block call it, before a barrier.
SLUICE_DEVICE void find_span(const AttendLaunch& launch, int row, RowSpan* to) {
  for (int i = static_cast<int>(threadIdx.x); i < launch.spans; i += static_cast<int>(blockDim.x)) {
    const RowSpan span = launch.args.spans[static_cast<std::size_t>(i)];
    if (row >= span.row_begin && row < span.row_begin + span.rows) *to = span;
  }
}
SLUICE_DEVICE void count_keys(const AttendLaunch& launch, const RowSpan& span, AttendItem* item) {
  item->list.count = count_keys(launch, span, item->row, item->list);
  item->end = min(item->begin + kSegmentKeys, item->list.count);
}
SLUICE_DEVICE AttendItem with_keys(const AttendLaunch& launch, const RowSpan& span, AttendItem item) {
  item.list = window_keys(launch, span, item.row);
  count_keys(launch, span, &item);
  return item;
}
SLUICE_DEVICE int heads_of(const AttendLaunch& launch, const AttendItem& item) {
  return min(kGroupHeads, launch.args.heads - item.first_head);
}

// Copies queries to tiles, by kWarps warps, the first ones of the team; a lane has every 32nd piece of eight dims.
template <int kDims, int kWarps, class Tile>
SLUICE_DEVICE void load_queries(const AttendLaunch& launch, const AttendItem& item, float* powers, const Tile& tile) {
  constexpr int kPieces = kDims / 8;
  const std::byte* from =
      launch.queries +
      (static_cast<std::ptrdiff_t>(item.row - launch.query_row) * launch.args.heads + item.first_head) *
          launch.query_bytes;
  const int t = static_cast<int>(threadIdx.x), heads = heads_of(launch, item);
#pragma unroll
  for (int first = 0; first < kGroupHeads; first += kWarps) {
    const int head = first + t / 32;
    if (head >= kGroupHeads) break;
    const bool there = head < heads;
    const std::byte* of_head = from + (there ? head : 0) * launch.query_bytes;
#pragma unroll
    for (int piece = t % 32; piece < kPieces; piece += 32) {
      cuda_ops::copy_16_or_zeros(tile(piece / 8) + tile_piece(head, piece % 8), of_head + piece * 16, there);
    }
  }
  cuda_ops::commit_copies();
  if (t < kGroupHeads) {
    const auto* power = reinterpret_cast<const float*>(from + (t < heads ? t : 0) * launch.query_bytes + kDims * 2);
    powers[t] = __ldcg(power);
  }
  cuda_ops::wait_copies<0>();
}

// Finds a group's keys `index(i)` of the segment, i = t, t + 128, ..; it need not be known how many there are.
template <int kCount, class Index>
SLUICE_DEVICE void find_keys(const AttendLaunch& launch, const AttendItem& item, std::int32_t (&key)[kCount],
                             const Index& index) {
#pragma unroll
  for (int n = 0; n < kCount; ++n) {
    const int at = item.begin + index(static_cast<int>(threadIdx.x) % kGroupThreads + n * kGroupThreads);
    const bool there = at < item.list.of_window || launch.args.selected == nullptr ||
                       at - item.list.of_window < launch.args.max_selected;
    key[n] = there ? key_at(launch, item.list, item.row, at) : 0;
  }
}
// Finds where they lie: rows[i] is the number of rows before those of the key's page plus its number in the page.
template <int kCount, class Index>
SLUICE_DEVICE void find_rows(const AttendLaunch& launch, const RowSpan& span, const AttendItem& item,
                             const std::int32_t (&key)[kCount], std::int32_t* rows, const Index& index) {
  const int t = static_cast<int>(threadIdx.x) % kGroupThreads;
  std::int32_t page[kCount];
#pragma unroll
  for (int n = 0; n < kCount; ++n) {
    const int at = item.begin + index(t + n * kGroupThreads);
    const bool of_window = at < item.list.of_window;
    page[n] = of_window || at < item.end ? page_of_key(launch, span, of_window, key[n]) : 0;
  }
#pragma unroll
  for (int n = 0; n < kCount; ++n) {
    const int i = t + n * kGroupThreads;
    const int shift = item.begin + index(i) < item.list.of_window ? launch.window_shift : launch.latent_shift;
    rows[i] = (page[n] << shift) | (key[n] & ((1 << shift) - 1));
  }
}

// A cached row in copies of 64 bytes: each has the codes of a tile's dims, and the last two have the rotary dims; and
// its scales.
template <int kDims>
struct AttendCodes {
  static constexpr int kTiles = kDims / 64, kCodeCopies = (kDims - kRopeDims) / 64, kCopies = kCodeCopies + 2;
  static constexpr int kDataBytes = kCopies * 64, kScaleBytes = 8;

  // A key's page, and its row there.
  struct PageRow {
    const std::byte* page;
    int row, rows;
    SLUICE_DEVICE const std::byte* data() const { return page + row * kDataBytes; }
    SLUICE_DEVICE uint2 scales() const {
      return __ldcg(reinterpret_cast<const uint2*>(page + rows * kDataBytes + row * kScaleBytes));
    }
  };
  // Returns the row of key i of the segment, which find_rows() found at `at`.
  static SLUICE_DEVICE PageRow row_of(const AttendLaunch& launch, const AttendItem& item, int i, std::int32_t at) {
    const bool of_window = item.begin + i < item.list.of_window;
    const PlaneView& plane = of_window ? launch.window : launch.latent;
    const int shift = of_window ? launch.window_shift : launch.latent_shift;
    return {plane.base + static_cast<std::uint64_t>(static_cast<std::uint32_t>(at >> shift)) *
                             static_cast<std::uint32_t>(plane.page_bytes),
            at & ((1 << shift) - 1), 1 << shift};
  }

  // True if all scales lie in 2^-14..1, as they do in nearly all rows.
  static SLUICE_DEVICE bool is_plain(const uint2& scales) {
    const auto outside = [](std::uint32_t four, std::uint32_t used) {
      const std::uint32_t above = ((four & used) | (0x7F7F7F7FU & ~used)) ^ 0x70707070U;
      return (above & 0xF0F0F0F0U) | (~(above + 0x7F7F7F7FU) & 0x80808080U);
    };
    return (outside(scales.x, kFirstScales) | outside(scales.y, kLastScales)) == 0;
  }
  static constexpr std::uint32_t kFirstScales = kCodeCopies < 4 ? 0xFFFFFFFFU >> (32 - 8 * kCodeCopies) : 0xFFFFFFFFU;
  static constexpr std::uint32_t kLastScales = kCodeCopies < 5 ? 0U : 0xFFFFFFFFU >> (64 - 8 * kCodeCopies);
  static SLUICE_DEVICE std::uint32_t largest(const uint2& scales, std::uint32_t most) {
#pragma unroll
    for (int i = 0; i < kCodeCopies; ++i) most = max(most, (i < 4 ? scales.x : scales.y) >> (8 * (i % 4)) & 0xFFU);
    return most;
  }
};

// Returns E of a block, of which a thread of the group has the scales of two keys; `words` has four words for the
// group.
template <int kBarrier, class Codes>
SLUICE_DEVICE int find_exponent(int* words, const uint2 (&scales)[2]) {
  const std::uint32_t most = __reduce_max_sync(0xFFFFFFFFU, Codes::largest(scales[1], Codes::largest(scales[0], 0)));
  if (threadIdx.x % 32 == 0) words[threadIdx.x / 32 % 4] = static_cast<int>(most);
  meet_group<kBarrier>();
  return block_exponent(max(max(words[0], words[1]), max(words[2], words[3])));
}

// Converts sixteen codes, `part` of a key's copy. kPlain: is_plain(), and `exponent`, which is E, is 0.
template <bool kPlain>
SLUICE_DEVICE void store_codes(std::byte* tile, int key, int part, const uint4& codes, std::uint32_t scale,
                               int exponent) {
  const std::uint32_t from[4] = {codes.x, codes.y, codes.z, codes.w};
  const std::uint32_t first = kPlain ? (scale - 112U) * 0x04000400U : first_factor(scale, exponent);
  std::uint32_t to[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    to[i] = multiply_halves(codes_to_halves(from[i / 2] >> (16 * (i % 2))), first);
    if (!kPlain) to[i] = multiply_halves(to[i], second_factor(scale, exponent));
  }
  *reinterpret_cast<uint4*>(tile + tile_piece(key, 2 * part)) = {to[0], to[1], to[2], to[3]};
  *reinterpret_cast<uint4*>(tile + tile_piece(key, 2 * part + 1)) = {to[4], to[5], to[6], to[7]};
}
// Converts eight rotary values, piece `piece` of the tile.
template <bool kPlain>
SLUICE_DEVICE void store_rotary(std::byte* tile, int key, int piece, const uint4& values, int exponent) {
  const float down = kPlain ? 1.0F : power_of_two(-exponent);
  const std::uint32_t from[4] = {values.x, values.y, values.z, values.w};
  std::uint32_t to[4];
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    to[w] = half_pair(__uint_as_float(from[w] << 16) * down, __uint_as_float(from[w] & 0xFFFF0000U) * down);
  }
  *reinterpret_cast<uint4*>(tile + tile_piece(key, piece)) = {to[0], to[1], to[2], to[3]};
}

// Finishes the scores of a block, registers of a product: they become units of 1 instead of 2^E, and -inf past `count`
// keys.
SLUICE_DEVICE void finish_scores(float (&s)[32], int exponent, int count) {
  if (exponent != 0) {
#pragma unroll
    for (float& value : s) value *= power_of_two(exponent);
  }
  if (count < kBlockKeys) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      if (i / 4 * 8 + lane % 4 * 2 + i % 2 >= count) s[i] = -INFINITY;
    }
  }
}
// Returns the largest score of head h of a thread's two, or `most`; four threads have a head's scores.
SLUICE_DEVICE float largest_score(const float (&s)[32], int h, float most) {
#pragma unroll
  for (int i = 0; i < 16; ++i) most = fmaxf(most, s[i / 2 * 4 + h * 2 + i % 2]);
  most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFU, most, 1));
  return fmaxf(most, __shfl_xor_sync(0xFFFFFFFFU, most, 2));
}
// Computes weights against the largest score so far, and their sum.
SLUICE_DEVICE float weigh_scores(const float (&s)[32], int h, float factor, float most, std::uint32_t (&weights)[8]) {
  const float below = -(most * factor);
  float sum = 0.0F;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const float first = exp2_fast(std::fma(s[4 * i + 2 * h], factor, below));
    const float second = exp2_fast(std::fma(s[4 * i + 2 * h + 1], factor, below));
    weights[i] = half_pair(first, second);
    sum += first;
    sum += second;
  }
  sum += __shfl_xor_sync(0xFFFFFFFFU, sum, 1);
  return sum + __shfl_xor_sync(0xFFFFFFFFU, sum, 2);
}
// Stores the weights of heads low and low + 8 to a tile.
SLUICE_DEVICE void store_weights(std::byte* tile, int low, const std::uint32_t (&weights)[2][8]) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      *reinterpret_cast<std::uint32_t*>(tile + tile_piece(low + 8 * h, i) + threadIdx.x % 4 * 4) = weights[h][i];
    }
  }
}
// Scales the values of two heads before those of a block are added.
template <int kParts, int kCount>
SLUICE_DEVICE void scale_values(float (&v)[kParts][kCount], float (&alpha)[2], int before, int exponent) {
  if (before != exponent) {
#pragma unroll
    for (float& a : alpha) a *= exponent_step(before, exponent);
  }
  if (!__any_sync(0xFFFFFFFFU, alpha[0] != 1.0F || alpha[1] != 1.0F)) return;
#pragma unroll
  for (auto& part : v) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) part[i] *= alpha[i / 2 % 2];
  }
}
// Stores the values of head h of the two, to where the thread's first value dim lies.
template <int kParts, int kCount>
SLUICE_DEVICE void store_values(float* to, const float (&v)[kParts][kCount], int h, float factor) {
#pragma unroll
  for (int p = 0; p < kParts; ++p) {
#pragma unroll
    for (int i = 0; i < kCount / 4; ++i) {
      const float a = v[p][4 * i + 2 * h], b = v[p][4 * i + 2 * h + 1];
      *reinterpret_cast<float2*>(to + p * 2 * kCount + i * 8) = {a * factor, b * factor};
    }
  }
}

// Stores the output of head h of a row with one segment. `turns`: for the last 64 dims of the group, if they are rotary
// (turns_of()).
template <int kParts, int kCount>
SLUICE_DEVICE void store_outputs(const AttendLaunch& launch, int row, int head, int dims, int dim,
                                 const float (&v)[kParts][kCount], int h, float factor, const float* turns) {
  constexpr int kPlain = kCount / 4 - kRopeDims / 8;  // pieces of 8 dims of the last part that are not rotary
#pragma unroll
  for (int p = 0; p < kParts; ++p) {
#pragma unroll
    for (int i = 0; i < kCount / 4; ++i) {
      const bool rotary = p == kParts - 1 && i >= kPlain && turns != nullptr;
      put_output(launch, row, head, dims, dim + p * 2 * kCount + i * 8, v[p][4 * i + 2 * h] * factor,
                 v[p][4 * i + 2 * h + 1] * factor,
                 rotary ? turns + (i - kPlain) * 8 + static_cast<int>(threadIdx.x) % 4 * 2 : nullptr);
    }
  }
}

}  // namespace sluice::cuda_sm90
