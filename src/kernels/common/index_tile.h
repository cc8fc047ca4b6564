// A tile of rows and entries for the indexer's kernels, and the best entries that a row has met so far.
//
// A row gathers candidates instead of keeping all scores. Entries come in ascending order, and those whose score does
// not exceed `bound` are dropped. When there is no room left, the k best stay and the bound rises to the worst of them.
// A later entry that only equals the bound loses to k earlier ones, so the choice is exact, ties included.
// Used by kernels/cpu/kernel_table.h, kernels/cpu/order.h and kernels/ref/kernels.h.
#pragma once

#include <cstdint>

#include "kernels/ops/attention.h"
#include "kernels/ops/indexer.h"

namespace sluice {

struct IndexCandidates {
  static constexpr int kSlack = 16;  // lanes that a vector writes past the end

  std::int32_t* keys = nullptr;     // order_key() of the scores, [capacity + kSlack]
  std::int32_t* entries = nullptr;  // ascending, [capacity + kSlack]
  int capacity = 0;                 // 0: the row keeps no candidates
  int count = 0;
  std::int32_t bound = INT32_MIN;  // below every order_key()
};

// Entries [first, last) for rows [begin, end) of span `span`.
struct IndexTile {
  // Most candidates added at once; there is room for top_k and this many more.
  static constexpr int kKeys = 64;

  const IndexSelectArgs* args;
  int span, begin, end;
  std::int32_t first, last;
  IndexCandidates* candidates;  // one for each row, [end - begin]
};

// The functions are always inlined, because a copy that was compiled for one ISA must not be linked into another's
// code.

// Returns one past the last entry that a row of `span` sees.
[[gnu::always_inline]] inline std::int32_t visible_entries(const IndexSelectArgs& args, const RowSpan& span, int row) {
  return (span.first_position + (row - span.row_begin) + 1) / args.tokens_per_row;
}
// True if the row selects all entries that it sees.
[[gnu::always_inline]] inline bool takes_all(const IndexSelectArgs& args, std::int32_t visible) {
  return visible - args.first_entry <= args.top_k;
}

// Finds the addresses of entries [first, first + count) of a span.
[[gnu::always_inline]] inline void index_rows(const StepTables& step, const RowSpan& span, const PlaneView& keys,
                                              std::int32_t first, int count, RowRef* rows) {
  std::int32_t page = first / keys.rows_per_page;
  int r = first % keys.rows_per_page;
  for (int i = 0; i < count; r = 0, ++page) {
    RowRef row = keys.row(step.latent_page(span, page).value, r);
    for (; i < count && r < keys.rows_per_page; ++i, ++r) {
      rows[i] = row;
      row.data += keys.format.data_bytes;
      row.scales += keys.format.scale_bytes;
    }
  }
}

}  // namespace sluice
