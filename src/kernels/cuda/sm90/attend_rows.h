// attend_keys (kernels/attention.h) of the profile sm90 for V4's rows in official FP8: kV4Fp8 with 64 rotary dims, of
// 512 or 128, which are keys and values, with `bf16`. Its order, and what its kernels share.
//
// The keys of a row are one list: the window's positions, then the entries, both ascending. It is cut into segments of
// 1,024 items and these into blocks of 64. For a head, from m = -inf, l = 0, v[d] = 0 in a segment:
//   s_i = steps over 16 dims, ascending, of bf16 products, each added to an f32 sum from 0 as the tensor core does;
//   m' = max(m, s_i of the block);  a = exp2((m - m') c);  w_i = bf16(exp2(fma(s_i, c, -(m' c)))), where
//     c = scale log2(e) and exp2 is the GPU's ex2.approx.ftz.f32; items behind the last of a block have w = 0;
//   l = fma(l, a, z), z of the rounded w_i: for t in 0..3 a plain sum over items 8 j + 2 t, 8 j + 2 t + 1, j ascending,
//     then (t0 + t1) + (t2 + t3);
//   v[d] = v[d] a, then steps over 16 items, ascending, of bf16 products w_i k_i[d].
// Segments merge ascending, from (M, L, V) of the first: M' = max(M, m), a = exp2((M - M') c), b = exp2((m - M') c);
//   L' = fma(b, l, a L);  V'[d] = fma(b, v[d], a V[d]).
// With a sink, L = L + exp2(fma(sink, log2(e), -(M c))); out[d] = V[d] (1 / L). q is rounded to bf16, in which the
// rows' values are exact at any scale; a code of NaN counts as 480 (a row of NaN has it in its rotary dims).
#pragma once

#include <cmath>

#include "kernels/cuda/shared/row_keys.h"
#include "kernels/cuda/shared/step_rows.h"
#include "kernels/cuda/sm90/wgmma.h"
#include "kernels/math.h"

namespace sluice::cuda_sm90 {

inline constexpr int kBlockKeys = 64, kSegmentKeys = 1024;
inline constexpr int kGroupHeads = 64;                 // of a row, that a team has
inline constexpr int kRopeDims = 64;                   // of a cached row, in bf16 behind its codes
inline constexpr std::uint32_t kLastPlainScale = 134;  // 2^7

// A launch: teams are [row - first_row][group of heads][segment].
struct AttendLaunch {
  AttendArgs args;  // but for the pointers to the host's structs
  StepTables step;
  PlaneView window, latent;
  int window_shift, latent_shift;  // rows of a page are 2^shift
  bool has_latents;
  int spans, first_row, groups, segments;  // segments of a row at most
  float score_factor;                      // scale * log2(e)
  // Of rows with several segments: [row - first_row][group][segment], of which kPartialSums floats are m and l of each
  // head, then the values [kGroupHeads][dims].
  float* partials;
};
inline constexpr int kPartialSums = 2 * kGroupHeads;
SLUICE_HD constexpr std::int64_t segment_floats(int dims) {
  return kPartialSums + std::int64_t{kGroupHeads} * dims;
}

// 2^x.
SLUICE_DEVICE float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// The keys of a row, as items of one list.
struct KeyList {
  Position first;  // of the window
  int of_window, count;
  SLUICE_DEVICE int segments() const { return (count + kSegmentKeys - 1) / kSegmentKeys; }
};
SLUICE_DEVICE KeyList key_list(const AttendLaunch& launch, const RowSpan& span, int row) {
  const Position p = cuda_ops::position_of(span, row), first = cuda_ops::window_first(launch.args, p);
  const int of_window = p + 1 - first;
  return {first, of_window, of_window + cuda_ops::latent_count(launch.args, launch.has_latents, p, row)};
}
// Item i of the list: its position or entry, then its page.
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

// Codes of e4m3 lie in bf16 as their values times 2^-120; these two factors of a pair, the second of which is nearly
// always 1, bring them to their scale. Codes of NaN count as 480: rows of NaN have it in their rotary dims as well.
SLUICE_HD constexpr std::uint32_t code_factor(std::uint32_t e8m0) {
  return e8m0 <= kLastPlainScale ? (e8m0 + 120U) * 0x00800080U : 0x7F007F00U;
}
SLUICE_HD constexpr std::uint32_t further_factor(std::uint32_t e8m0) {  // above kLastPlainScale
  return e8m0 == 255 ? 0x7FC07FC0U : (e8m0 - 7U) * 0x00800080U;
}
SLUICE_DEVICE std::uint32_t spread_pair(std::uint32_t bytes) {  // codes in bytes 1 and 3
  return (bytes & 0x80008000U) | ((bytes >> 4) & 0x07F007F0U);
}
SLUICE_DEVICE void codes_to_bf16(std::uint32_t codes, std::uint32_t factor, std::uint32_t* to) {
  to[0] = multiply_pairs(spread_pair(__byte_perm(codes, 0, 0x1404)), factor);
  to[1] = multiply_pairs(spread_pair(__byte_perm(codes, 0, 0x3424)), factor);
}
SLUICE_DEVICE std::uint32_t bf16_pair(float low, float high) {
  std::uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}
SLUICE_DEVICE float low_of(std::uint32_t pair) {
  return __uint_as_float(pair << 16);
}
SLUICE_DEVICE float high_of(std::uint32_t pair) {
  return __uint_as_float(pair & 0xFFFF0000U);
}

// The sum of weights, of which the largest score is m, with that of the sink.
SLUICE_DEVICE float with_sink(const AttendLaunch& launch, int head, float m, float l) {
  if (launch.args.sink == nullptr) return l;
  return l + exp2_fast(std::fma(launch.args.sink[head], kLog2E, -(m * launch.score_factor)));
}
SLUICE_DEVICE float* out_of(const AttendLaunch& launch, int row, int head, int dims) {
  return launch.args.out + (static_cast<std::ptrdiff_t>(row) * launch.args.heads + head) * dims;
}

// Enqueued behind the kernels of segments: rows that have several are merged.
void merge_segments(const Exec& exec, const AttendLaunch& launch, int rows);
// The kernel with one team an item.
void attend_in_teams(const Exec& exec, const AttendLaunch& launch, int rows);

}  // namespace sluice::cuda_sm90
