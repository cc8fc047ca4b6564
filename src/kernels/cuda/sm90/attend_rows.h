// attend_keys (kernels/ops/attention.h) of the profile sm90 for V4's rows in official FP8: kV4Fp8 with 64 rotary dims,
// of 512 or 128, which are keys and values, with `bf16`. This file has its order, and the parts that its kernels share.
//
// The keys of a row are one list: the window's positions, then the entries, both ascending. It is cut into segments of
// 1,024 items and these into blocks of 64. Operands are f16, of which powers of two are taken out:
//   queries of a head: q[d] 2^-Q, rounded; Q is the exponent of the largest of its |q[d]|, at least -64
//   keys of a block: k[d] 2^-E, rounded; E = e - clamp(e, -14, 4), e the exponent of the largest scale in the block. So
//     E is 0 and codes are exact if scales lie in 2^-14..2^4; else they lose up to 2^-25 of 2^E. A rotary
//     value of 65,520 2^E or more is infinite, which the row's outputs show.
// For a head, from m = -inf, l = 0, v[d] = 0 in a segment, where all powers of two are multiplied in exactly:
//   s_i = steps over 16 dims, ascending, of f16 products, each added to an f32 sum from 0 as the tensor core does, 2^E;
//   m' = max(m, s_i of the block);  a = exp2((m - m') c);  w_i = exp2(fma(s_i, c, -(m' c))), where
//     c = scale log2(e) 2^Q and exp2 is the GPU's ex2.approx.ftz.f32; items past the last of a block have w = 0;
//   l = fma(l, a, z): for t in 0..3 a plain sum of w_i over items 8 j + 2 t, 8 j + 2 t + 1, j ascending, then
//     (t0 + t1) + (t2 + t3);
//   v[d] = v[d] (a 2^(E before - E)), then steps over 16 items, ascending, of f16 products w_i k_i[d];
//     at last v[d] 2^E.
// Segments merge ascending, from (M, L, V) of the first, with c without 2^Q and m 2^Q: M' = max(M, m);
//   a = exp2((M - M') c), b = exp2((m - M') c);  L' = fma(b, l, a L);  V'[d] = fma(b, v[d], a V[d]).
// With a sink, L = L + exp2(fma(sink, log2(e), -(M c))); out[d] = V[d] (1 / L).
// Used by attend_merge.cu, attend_parts.h, attend_queries.cu and index_scores.cu.
#pragma once

#include <bit>
#include <cmath>

#include "kernels/common/math.h"
#include "kernels/cuda/shared/row_keys.h"
#include "kernels/cuda/shared/step_rows.h"
#include "kernels/cuda/sm90/bf16_codes.h"
#include "kernels/cuda/sm90/wgmma.h"

namespace sluice::cuda_sm90 {

inline constexpr int kBlockKeys = 64, kSegmentKeys = 1024;
inline constexpr int kGroupHeads = 64;                     // heads of a row that a team has
inline constexpr int kRopeDims = 64;                       // rotary dims of a cached row, in bf16 after its codes
inline constexpr int kLeastScale = 113, kMostScale = 131;  // 2^-14 and 2^4, the scales of a block with E = 0
inline constexpr int kLeastQuery = 63;                     // 2^-64

// A launch: teams are [row - first_row][group of heads][segment].
struct AttendLaunch {
  AttendArgs args;  // its pointers to host memory are replaced by the fields below
  StepTables step;
  PlaneView window, latent;
  int window_shift, latent_shift;  // rows of a page are 2^shift
  bool has_latents;
  // Spans of the launch, its first row, groups of heads of a row, most segments of a row.
  int spans, first_row, groups, segments;
  int cluster;         // blocks that have a team's work: 1, or, if dims are 512, 2, 4 or 8
  float score_factor;  // scale * log2(e)
  // Records of form_queries(), [row - query_row][heads].
  const std::byte* queries;
  std::ptrdiff_t query_bytes;
  int query_row;
  // The sums of rows with several segments: [row - first_row][group][segment]. Each has kPartialSums floats, m and l of
  // each head, then the values [kGroupHeads][dims].
  float* partials;
  // The output as bf16 [row of the step][heads * dims]; null: not wanted. If args.out_rope has a table, the output's
  // rotary dims, the last ones, are rotated back, in neighbouring pairs.
  float* pairs;
  bool values;  // args.out is written, too
};
inline constexpr int kPartialSums = 2 * kGroupHeads;
SLUICE_HD constexpr std::int64_t segment_floats(int dims) {
  return kPartialSums + std::int64_t{kGroupHeads} * dims;
}

// Returns 2^x, by the GPU's fast instruction.
SLUICE_DEVICE float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// The keys of a row, as items of one list.
struct KeyList {
  Position first;  // the window's first position
  int of_window, count;
  SLUICE_DEVICE int segments() const { return (count + kSegmentKeys - 1) / kSegmentKeys; }
};
// Returns the keys of the window; the number of all keys takes a load.
SLUICE_DEVICE KeyList window_keys(const AttendLaunch& launch, const RowSpan& span, int row) {
  const Position p = cuda_ops::position_of(span, row), first = cuda_ops::window_first(launch.args, p);
  return {first, p + 1 - first, 0};
}
SLUICE_DEVICE int count_keys(const AttendLaunch& launch, const RowSpan& span, int row, const KeyList& list) {
  return list.of_window +
         cuda_ops::latent_count(launch.args, launch.has_latents, cuda_ops::position_of(span, row), row);
}
SLUICE_DEVICE KeyList key_list(const AttendLaunch& launch, const RowSpan& span, int row) {
  KeyList list = window_keys(launch, span, row);
  list.count = count_keys(launch, span, row, list);
  return list;
}
// Returns item i of the list: its position or entry; page_of_key() then gives its page.
SLUICE_DEVICE std::int32_t key_at(const AttendLaunch& launch, const KeyList& list, int row, int i) {
  if (i < list.of_window) return list.first + i;
  const int entry = i - list.of_window;
  if (launch.args.selected == nullptr) return launch.args.first_key + entry;
  return launch.args.selected[static_cast<std::ptrdiff_t>(row) * launch.args.max_selected + entry];
}
SLUICE_DEVICE std::int32_t page_of_key(const AttendLaunch& launch, const RowSpan& span, bool of_window,
                                       std::int32_t key) {
  if (of_window) return launch.step.window_page(span, key >> launch.window_shift).value;
  return launch.step.latent_page(span, key >> launch.latent_shift).value;
}
SLUICE_DEVICE RowRef row_of_key(const AttendLaunch& launch, bool of_window, std::int32_t key, std::int32_t page) {
  const PlaneView& plane = of_window ? launch.window : launch.latent;
  return plane.row(page, key & (plane.rows_per_page - 1));
}

// Returns 2^x for -126 <= x <= 127.
SLUICE_HD constexpr float power_of_two(int x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x + 127) << 23);
}
// Returns E of a block whose largest scale is 2^(e8m0 - 127).
SLUICE_HD constexpr int block_exponent(int e8m0) {
  return e8m0 - (e8m0 < kLeastScale ? kLeastScale : e8m0 > kMostScale ? kMostScale : e8m0);
}
// Returns Q of a head; `bits`: those of its largest |q[d]|.
SLUICE_HD constexpr int query_exponent(std::uint32_t bits) {
  const int exponent = static_cast<int>(bits >> 23);
  return (exponent < kLeastQuery ? kLeastQuery : exponent > 253 ? 253 : exponent) - 127;
}
// Returns 2^(E before - E), the factor of v between two blocks.
SLUICE_HD constexpr float exponent_step(int before, int now) {
  const int step = before - now;
  return power_of_two(step < -126 ? -126 : step > 126 ? 126 : step);
}

// Converts two codes of e4m3 to f16, each exactly.
SLUICE_DEVICE std::uint32_t codes_to_halves(std::uint32_t codes) {
  std::uint32_t pair;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"(static_cast<std::uint16_t>(codes)));
  return pair;
}
SLUICE_DEVICE std::uint32_t multiply_halves(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));
  return product;
}
// A scale 2^(e8m0 - 127 - E) in two factors, of which one is 1 unless it is below 2^-14; NaN is 255.
SLUICE_DEVICE std::uint32_t first_factor(std::uint32_t e8m0, int exponent) {
  const int x = static_cast<int>(e8m0) - 112 - exponent;
  return static_cast<std::uint32_t>(max(x, 1)) * 0x04000400U;
}
SLUICE_DEVICE std::uint32_t second_factor(std::uint32_t e8m0, int exponent) {
  const int x = static_cast<int>(e8m0) - 113 - exponent;  // if x < 0, the other factor is 2^x
  if (e8m0 == 255) return 0x7E007E00U;
  if (x >= 0) return 0x3C003C00U;
  return x >= -14 ? static_cast<std::uint32_t>(x + 15) * 0x04000400U : x >= -24 ? 0x00010001U << (x + 24) : 0U;
}
SLUICE_DEVICE std::uint32_t half_pair(float low, float high) {
  std::uint32_t pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

// Adds the sink's weight to the sum of weights, of which the largest score is m.
SLUICE_DEVICE float add_sink(const AttendLaunch& launch, float sink, float m, float l) {
  return l + exp2_fast(std::fma(sink, kLog2E, -(m * launch.score_factor)));
}
SLUICE_DEVICE float with_sink(const AttendLaunch& launch, int head, float m, float l) {
  return launch.args.sink == nullptr ? l : add_sink(launch, launch.args.sink[head], m, l);
}
SLUICE_DEVICE float* out_of(const AttendLaunch& launch, int row, int head, int dims) {
  return launch.args.out + (static_cast<std::ptrdiff_t>(row) * launch.args.heads + head) * dims;
}

// Writes values `dim` and dim + 1 of a head, finished. `turn`: cosine and sine of a rotary pair, null for any other.
SLUICE_DEVICE void put_output(const AttendLaunch& launch, int row, int head, int dims, int dim, float a, float b,
                              const float* turn) {
  if (turn != nullptr) {
    const float2 by = *reinterpret_cast<const float2*>(turn);
    const float x0 = a, x1 = b;
    a = std::fma(x0, by.x, -(x1 * -by.y));
    b = std::fma(x0, -by.y, x1 * by.x);
  }
  float* to = out_of(launch, row, head, dims) + dim;
  if (launch.values) *reinterpret_cast<float2*>(to) = {a, b};
  if (launch.pairs != nullptr) {
    reinterpret_cast<std::uint32_t*>(launch.pairs)[(to - launch.args.out) / 2] = bf16_pair(a, b);
  }
}
// Returns the cosines and sines by which the rotary dims of a position are turned back; null: they are not.
SLUICE_DEVICE const float* turns_of(const AttendLaunch& launch, Position p) {
  const float* table = launch.args.out_rope.table;
  return table == nullptr ? nullptr : table + static_cast<std::ptrdiff_t>(p) * kRopeDims;
}

// Merges rows that have several segments; it is enqueued after the kernels of segments.
void merge_segments(const Exec& exec, const AttendLaunch& launch, int rows);
// The kernels with one block, and with launch.cluster blocks, for a team's work. The bits are the same.
void attend_in_teams(const Exec& exec, const AttendLaunch& launch, std::int64_t teams);
void attend_in_clusters(const Exec& exec, const AttendLaunch& launch, std::int64_t teams);
// Does attend_keys() for rows that the kernels can do, with `cluster` blocks (0: the fastest number), and the work of
// args.out_rope and of the bf16 of args.out_rows. formed: args.q has records of form_queries(), where each head lay.
// Returns the number of blocks.
int attend_official(const Exec& exec, const AttendArgs& args, int cluster, bool formed = false);

// Makes records of the queries of `rows` rows, [rows, heads, dims]: a record is the f16 values of a head, then 2^Q, as
// a float. A record may begin where the head did. beside_last: see kernels/cuda/launch.h.
struct QueryForm {
  const float* q;
  std::byte* to;
  std::ptrdiff_t record_bytes;  // from one record to the next, a multiple of 16
  int rows, heads;
  float eps = -1.0F;             // if not negative, heads are normed
  const float* table = nullptr;  // if not null, the last dims are rotated in neighbouring pairs
  const Position* positions = nullptr;
};
constexpr std::ptrdiff_t query_record_bytes(int dims) {
  return 2 * dims + 16;
}
void form_queries(const Exec& exec, const QueryForm& form, int dims, bool beside_last = false);

}  // namespace sluice::cuda_sm90
