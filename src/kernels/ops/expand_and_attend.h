// expand_and_attend: latent attention of one long span over expanded keys and values of its heads,
// k = (W_UK c, rotated key) and v = W_UV c. They are made anew from the cached latents (c | rotated key that all heads
// share): first those of the prefix, in pieces of `prefix_chunk` tokens, then those of the span itself.
//   query     as attend()'s (kernels/ops/attention.h), in place
//   a piece   W_UK c and W_UV c in the order of kernels/ops/linear.h, then attend_expanded() over its keys
//   merge     the first piece is the result; merge_attention() merges each later one into it
//   (kernels/ops/attend_expanded.h)
//
// Per head, expanding a key costs rank * (nope + v) products and saves every row 2 * rank - nope - v of them: with 512,
// 128 and 128 it pays from 171 rows on. In fact it pays earlier. Expanding is a plain matrix product, and expanding the
// span's own keys costs no more than turning its queries and values would.
//
// Row contract: that of every op, except that the pieces depend on where the span begins, so that it needs a profile of
// its own.
// Used by kernels/composed/composed_attend.cc and model/deepseek_mla/attention.cc.
#pragma once

#include <algorithm>
#include <span>

#include "kernels/ops/attend_expanded.h"
#include "kernels/ops/attention.h"
#include "kernels/ops/linear.h"
#include "kernels/ops/plane.h"
#include "kernels/step/step_tables.h"

namespace sluice {

struct ExpandAndAttendArgs {
  const StepTables* step = nullptr;
  RowSpan span;
  int heads = 0, key_dims = 0, value_dims = 0, rank = 0, prefix_chunk = 0;
  std::span<const LinearWeight> k_expand, v_up;  // [heads]: [key_dims - rotary, rank], [value_dims, rank]
  const PlaneView* latent = nullptr;             // rows (c, rotated key)
  float* q = nullptr;                            // [rows of the step, heads, key_dims]
  HeadForm query = {};
  float scale = 1.0F;
  // Scratch, with keys = max(span.rows, prefix_chunk): [keys, rank + rotary]; [expanded_floats()]; [span.rows, heads,
  // value_dims]; [span.rows, heads] each.
  float *latents = nullptr, *expanded = nullptr, *piece = nullptr, *piece_lse = nullptr, *lse = nullptr;
  float* out = nullptr;  // [rows of the step, heads, value_dims]

  int rotary() const { return latent->format.dims - rank; }
  // Most floats of the heads that are expanded at a time: 16 MiB.
  static constexpr std::int64_t kMostFloats = std::int64_t{1} << 22;
  static int heads_at_once(int heads, int keys, int key_dims, int value_dims) {
    const std::int64_t head = std::int64_t{keys} * expanded_row_floats(key_dims, value_dims);
    return static_cast<int>(std::clamp<std::int64_t>(kMostFloats / head, 1, heads));
  }
  // Returns the floats of `expanded` for at most this many keys.
  static std::int64_t expanded_floats(std::int64_t heads, std::int64_t keys, int key_dims, int value_dims) {
    const std::int64_t head = keys * expanded_row_floats(key_dims, value_dims);
    return std::min(heads * head, std::max(head, kMostFloats));
  }
};
void expand_and_attend(const Exec& exec, const ExpandAndAttendArgs& args);

}  // namespace sluice
