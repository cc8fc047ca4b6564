// The lightning indexer's scores and exact top-k (spec section 7).
//
//   score(t, e) = chain over heads h of  weight[t, h] * relu(lanes16(q[t, h] * key_e)),  for entries e < (p + 1) /
//   tokens_per_row selected: the min(top_k, visible) best, by higher score, then lower entry (-0 equals 0); written in
//   ascending order.
// When no more than top_k entries are visible all are taken and nothing is scored (unless `scores` is asked for).
#pragma once

#include <cstdint>
#include <span>

#include "kernels/attention.h"

namespace sluice {

struct IndexSelectArgs {
  int rows = 0, heads = 0, dims = 0;
  const float* q = nullptr;        // [rows, heads, dims]
  const float* weights = nullptr;  // [rows, heads]
  std::span<const CacheSpan> spans;
  const StreamView* keys = nullptr;
  int tokens_per_row = 4, top_k = 0;
  std::int32_t* selected = nullptr;  // [rows, top_k]
  std::int32_t* count = nullptr;     // [rows]
  float* scores = nullptr;           // optional, [rows, scores_stride]: every visible entry's score
  std::ptrdiff_t scores_stride = 0;
};
void index_select(const Exec& exec, const IndexSelectArgs& args);

}  // namespace sluice
