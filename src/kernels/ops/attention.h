// attend: attention of rows over cached rows, read through the cache: one path for every span. A cached row holds a key
// in its first `dims` values and a value in `value_dims` values from `value_offset` on. Key and value may be the same
// values (V4's shared K = V; MLA's latent, whose value is its first value_dims) or not (GQA: a row is a key, then a
// value). With key_heads > 1 there is a plane for each key head, and heads / key_heads consecutive heads share one.
//
// Keys of the row at position p, in this order (docs/models/deepseek_v4.md §4.3, §4.4):
//   1. latent entries first_key <= e < (p + 1) / tokens_per_row, or the row's `selected` ones, ascending, in splits of
//      kSplitKeys: split i is list items [i * kSplitKeys, (i + 1) * kSplitKeys);
//   2. one split with the window: positions max(first_key, p - window_tokens + 1) .. p, ascending, and p in any case.
// In a split, for a head:
//   s_i = lanes16(q * k_i) * scale;  m = max s_i;  w_i = exp(s_i - m);  v[d] = chain(w_i * k_i[value_offset + d])
//   z = lanes16 of w_i, plain sums, over the list index (part 1) or the absolute position (part 2, lane p mod 16)
// Splits merge in that order, from (M, Z, V) of the first: M' = max(M, m); a = exp(M - M'), b = exp(m - M');
//   Z' = fma(b, z, a * Z);  V'[d] = fma(b, v[d], a * V[d]).
// With `bf16`, for rows whose codec holds bf16 values (all but kF32), q and w_i are rounded to bf16, z sums the rounded
// w_i, and each chain takes pairs, the second of them first, as the bf16 dot instruction does:
//   lane l of s_i takes dims 32 j + 16 + l, then 32 j + l;
//   v[d] takes keys 2 i + 1, then 2 i, of the list (part 1) or of all positions (part 2).
// With `tiles` as well, products are in the order of AMX tiles (InputForm::kTiles of kernels/ops/linear.h): slices of
// 32, ascending, each a chain of fused multiply-adds from 0 over its even items and one over its odd ones, e and o:
//   s_i = scale * (s + (e + o) over the slices of dims, from 0; dims past the last count as 0)
//   v[d] = v + (e + o) over the slices of keys, from 0, then + 0: keys 32 j .. 32 j + 31 of the split's list (part 1)
//   or of all positions (part 2), of which those that are not in the split count as 0
// The sink is last: with a sink, Z = Z + exp(sink - M); out[d] = V[d] / Z. Without any key the output is 0.
// Before: the heads of `query`, which may be q or lie elsewhere, are normed and rotated in place (HeadForm of
//   kernels/ops/elementwise.h). If they lie elsewhere, their rotary dims are copied to their place in q (absorbed
//   latent attention: q's other dims hold the queries already turned to the latent's side).
// After: with out_rope, each head of the output is rotated back; then the forms of `out` that have memory are made.
// Leaving out a masked key and giving it weight 0 give the same bits, so rows of a span may share decoded keys.
// Used by bench, kernels/composed, model/decoder, model/deepseek_mla and model/deepseek_v4.
#pragma once

#include <cstdint>
#include <span>

#include "base/index_types.h"
#include "kernels/device/exec.h"
#include "kernels/ops/elementwise.h"
#include "kernels/ops/plane.h"
#include "kernels/ops/rows.h"
#include "kernels/step/step_tables.h"

namespace sluice {

inline constexpr int kSplitKeys = 256;

// Entry e of a latent plane that holds one row per `tokens_per_row` tokens.
constexpr RowRef latent_row(const StepTables& step, const RowSpan& span, const PlaneView& plane, std::int32_t e) {
  return plane.row(step.latent_page(span, e / plane.rows_per_page).value, e % plane.rows_per_page);
}
constexpr RowRef window_row(const StepTables& step, const RowSpan& span, const PlaneView& plane, Position p) {
  return plane.row(step.window_page(span, p / kBlockTokens).value, p % kBlockTokens);
}

struct AttendArgs {
  int rows = 0, heads = 0, dims = 0, value_dims = 0;
  float* q = nullptr;  // [rows of the step, heads, dims]
  HeadForm query = {};
  float* query_heads = nullptr;  // [rows of the step, heads, query_dims]; null: q, of dims
  int query_dims = 0;
  float scale = 1.0F;
  const float* sink = nullptr;  // [heads]; null: none
  const StepTables* step = nullptr;
  std::span<const RowSpan> spans;     // the step's spans: all, or some consecutive ones
  int key_heads = 1;                  // divides heads
  const PlaneView* window = nullptr;  // [key_heads]; null: none
  int window_tokens = 0;
  std::int32_t first_key = 0;         // rows of a plane before this one are no keys
  const PlaneView* latent = nullptr;  // [key_heads]; null: none
  int tokens_per_row = 1;
  const std::int32_t* selected = nullptr;        // [rows, max_selected], ascending entries; null: all visible ones
  const std::int32_t* selected_count = nullptr;  // [rows]
  int max_selected = 0;
  int value_offset = 0;  // a multiple of 16
  bool bf16 = false;     // the order for bf16 above; attend_keys() clears it if rows are kF32
  bool tiles = false;    // the order of tiles above; only with bf16
  // Both faults are set by attend_keys() from the Exec (kernels/device/exec.h), the second by the CPU alone. With this
  // one, part 2 is two splits: positions before the span's first one, and those from there on.
  bool fault_chunk_anchored_splits = false;
  int fault_future_entries = 0;
  float* out = nullptr;    // [rows of the step, heads, value_dims]
  Rotation out_rope = {};  // table null: none
  Rows out_rows = {};      // `out` again, with the input forms to make of it; values null: no forms
  // Only the forms of `out` are read afterwards, and q is not read: the values of both need not be valid then.
  bool forms_only = false;
};
void attend(const Exec& exec, const AttendArgs& args);
// The part of attend() between "Before" and "After".
void attend_keys(const Exec& exec, const AttendArgs& args);

}  // namespace sluice
