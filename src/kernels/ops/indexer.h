// index_select: the lightning indexer's scores and exact top-k (docs/models/deepseek_v4.md §7).
//
//   score(t, e) = chain over heads h of weight[t, h] * relu(dot(q[t, h], key_e)), for the entries that the row sees:
//                 first_entry <= e < (p + 1) / tokens_per_row; -inf for those below first_entry
//                 q and weight as they are after `query`, hadamard, rounding and factor, below
//   selected    = the min(top_k, visible) best, by higher score, then lower entry (-0 equals 0), in ascending order
// When no more than top_k entries are visible, all are selected and nothing is scored (unless `scores` is asked for).
//
// dot follows from what the keys are stored as (RowCodecInfo::index_queries):
//   kCodes      (index-fp4) q is coded like the keys, which does not change a q that has passed that rounding. A block
//               of 32 dims has the integer I = the sum of the products of both sides' doubled e2m1 values, exact in any
//               order, and dot = chain over blocks of I * (k * s / 4), where k and s are the key's and the query's
//               scale of the block, limited to 2^-62 .. 2^52 so that their product is exact.
//   others      one chain over pairs of dims, ascending, the odd one of a pair first, as in kernels/ops/linear.h;
//               for kBf16 (index-fp8) q is rounded to bf16, which changes none that has passed that FP8 rounding.
// A dot that is NaN counts as 0.
//
// No more than a tile of scores exists at a time: a row keeps candidates (kernels/common/index_tile.h). Long contexts
// are cut between threads; the choice is exact, so no cut changes it.
// Used by bench/indexer_bench.cc, kernels/composed/composed_attend.cc, model/deepseek_mla/attention.cc and
// model/deepseek_v4/attention.cc.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/ops/attention.h"

namespace sluice {

inline constexpr std::uint8_t kMinIndexScale = 127 - 62, kMaxIndexScale = 127 + 52;  // as e8m0 codes

struct IndexSelectArgs {
  int rows = 0, heads = 0, dims = 0;
  float* q = nullptr;        // [rows, heads, dims]
  float* weights = nullptr;  // [rows, heads]
  // The op first does the following, in this order: queries are rotated, each head is multiplied by H
  // (kernels/ops/elementwise.h), and rounded as simulate_rows() does (kernels/ops/plane.h); weights are multiplied by
  // the factor.
  Rotation query_rope = {};
  bool query_hadamard = false;
  RowCodec query_simulation = RowCodec::kF32;
  float weight_factor = 1.0F;
  const StepTables* step = nullptr;
  const PlaneView* keys = nullptr;
  int tokens_per_row = 4, top_k = 0;
  std::int32_t first_entry = 0;
  std::int32_t* selected = nullptr;  // [rows, top_k]
  std::int32_t* count = nullptr;     // [rows]
  float* scores = nullptr;           // optional, [rows, scores_stride]: scores up to the last visible one, then 0
  std::ptrdiff_t scores_stride = 0;
};
void index_select(const Exec& exec, const IndexSelectArgs& args);
// The part of index_select() after queries and weights.
void select_entries(const Exec& exec, const IndexSelectArgs& args);

}  // namespace sluice
