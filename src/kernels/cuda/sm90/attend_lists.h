// The keys and the queries that the kernels of attend_list_parts.h's order work on together: index arithmetic alone.
//
// The keys of a row are items of a list. In a list of latent rows, item i is entry first_key + i, or the i-th selected
// one. In a window's list, item i is position i, and the row sees those of its window. Blocks are items [64 j, 64 j +
// 64). Segments begin at multiples of 512 items below 8,192, of 1,024 below 65,536, and of 4,096 from there on. So a
// few keys are shared by several processors, and the results of segments with many keys are small compared with the
// keys.
// Used by attend_list_parts.h.
#pragma once

#include <algorithm>

#include "base/host_device.h"

namespace sluice::cuda_sm90 {

inline constexpr int kListBlock = 64, kTileQueries = 64;

SLUICE_HD constexpr int segment_begin(int segment) {
  if (segment <= 16) return 512 * segment;
  return segment <= 72 ? 8192 + 1024 * (segment - 16) : 65536 + 4096 * (segment - 72);
}
SLUICE_HD constexpr int segment_of(int item) {
  if (item < 8192) return item / 512;
  return item < 65536 ? 16 + (item - 8192) / 1024 : 72 + (item - 65536) / 4096;
}

// Items [begin, end), which may be none.
struct ItemRange {
  int begin, end;
  SLUICE_HD constexpr bool empty() const { return end <= begin; }
  SLUICE_HD constexpr int first_segment() const { return segment_of(begin); }
  SLUICE_HD constexpr int segments() const { return empty() ? 0 : segment_of(end - 1) - segment_of(begin) + 1; }
};

// Queries of a span that share a key head: query n is head n % sharing of the key head's heads, in row n / sharing. A
// tile has up to `queries` consecutive ones. The numbers of the tiles of all spans follow from each span's first row,
// without the spans before it; some numbers have no tile.
struct QueryTiles {
  int sharing, queries;
  bool by_row;  // no tile has queries of two rows

  SLUICE_HD constexpr int of_row() const { return (sharing + queries - 1) / queries; }
  // Returns the first tile of span `span`, whose first row is `row`, both counted from the first.
  SLUICE_HD constexpr int first(int row, int span) const {
    if (by_row) return row * of_row();
    return static_cast<int>(static_cast<long long>(row) * sharing / queries) + span;
  }
  SLUICE_HD constexpr int count(int rows) const {
    if (by_row) return rows * of_row();
    return static_cast<int>((static_cast<long long>(rows) * sharing + queries - 1) / queries);
  }
  // Return the first query of tile `tile` of a span, and the number of its queries.
  SLUICE_HD constexpr int first_query(int tile) const {
    return by_row ? tile / of_row() * sharing + tile % of_row() * queries : tile * queries;
  }
  SLUICE_HD constexpr int queries_of(int tile, int rows) const {
    const int left = by_row ? sharing - tile % of_row() * queries : rows * sharing - tile * queries;
    return left < queries ? left : queries;
  }
};

}  // namespace sluice::cuda_sm90
