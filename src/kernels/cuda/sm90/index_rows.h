// index_select (kernels/ops/indexer.h) of the profile sm90 for keys of 128 dims in index-fp4 or index-fp8 and up to 64
// heads: its order, and the parts that its kernels share.
//
// q is as the header of the op says, then rounded to bf16, in which the keys' codes are exact. For an entry:
//   dot_h = eight steps of 16 dims, ascending, of bf16 products, each added to an f32 sum from 0 as the tensor core
//     does. index-fp4: step 2 j + p has dims 32 t + 8 j + 2 p + {0, 1, 4, 5}, t in 0..3, and the key's values have
//     their scale, limited to 2^-62 .. 2^52; index-fp8: step 4 a + j has dims 64 a + 16 t + 4 j + {0, 1, 2, 3}, codes
//     alone;
//   c_t, t in 0..3: a chain of c_t = fma(weight_h, max(dot_h, 0), c_t) from 0, over heads 8 i + 2 t, 8 i + 2 t + 1,
//     for i in 0..7, ascending; heads that do not exist have weight 0 and dot 0;
//   score = (c_0 + c_1) + (c_2 + c_3), for index-fp8 times the key's scale.
// A dot that is NaN counts as 0. The choice is exact.
//
// Entries are computed in tiles of 128, four of which are a unit. A row is cut into pieces of units, a team each, which
// leave order keys, and the largest key of each of some groups of entries. If a row is long, the k-th largest of these
// bounds the k-th score from below, and few entries reach it.
// Used by index.cu, index_choice.cu and index_scores.cu.
#pragma once

#include "kernels/cuda/shared/step_rows.h"
#include "kernels/ops/indexer.h"

namespace sluice::cuda_sm90 {

inline constexpr int kIndexDims = 128, kIndexHeads = 64, kIndexTile = 128, kIndexUnit = 512;
inline constexpr int kIndexSteps = kIndexDims / 16;
inline constexpr int kMostIndexPieces = 512, kMostIndexGroups = 8192;  // most pieces, and most groups, of a row
inline constexpr int kIndexCandidates = 8192;                          // most candidates of a row's choice
inline constexpr int kMostIndexEntries = 1 << 20, kMostIndexRows = 2;
// Queries for index-fp4 are multiplied by 2^51 and the keys' scales divided by it, so that bf16 has all of these.
inline constexpr int kIndexShift = 51;

// The place of dim d of a query in the order of the steps.
SLUICE_HD constexpr int index_place(bool fp4, int d) {
  if (fp4) return 16 * (2 * (d % 32 / 8) + d / 2 % 2) + 8 * (d % 2) + 2 * (d / 32) + d % 8 / 4;
  return 16 * (4 * (d / 64) + d % 16 / 4) + 8 * (d % 4 / 2) + 2 * (d % 64 / 16) + d % 2;
}

struct IndexLaunch {
  IndexSelectArgs args;  // its pointers to host memory are replaced by the fields below
  StepTables step;
  PlaneView keys;
  int page_shift, spans;          // rows of a page are 2^page_shift
  int first_row, rows;            // the rows of the launch
  int piece_units, rows_at_once;  // rows_at_once: 1 or kMostIndexRows of a span share a team's keys
  bool forms_queries;             // queries are rotated, multiplied by H (times hadamard) and rounded here, and
                                  // weights are multiplied by their factor
  float hadamard;
  std::int32_t* order_keys;  // [rows][stride]
  std::int64_t stride;
  std::int32_t* maxima;  // [rows][kMostIndexGroups]; null: no row is long

  SLUICE_HD int visible(const RowSpan& span, int row) const {
    return (span.first_position + (row - span.row_begin) + 1) / args.tokens_per_row;
  }
  SLUICE_HD bool takes_all(int entries) const { return entries - args.first_entry <= args.top_k; }
  SLUICE_HD int pieces(int entries) const {
    if (args.scores == nullptr && takes_all(entries)) return 0;
    const int units = (entries + kIndexUnit - 1) / kIndexUnit;
    return (units + piece_units - 1) / piece_units;
  }
};

// The rows of a span that are in a launch; each has as many pieces as the last one, whether it needs them or not.
struct IndexRows {
  int first, count, pieces, teams;
};
SLUICE_HD inline IndexRows rows_of_span(const IndexLaunch& launch, const RowSpan& span) {
  const int begin = span.row_begin > launch.first_row ? span.row_begin : launch.first_row;
  const int span_end = span.row_begin + span.rows, all = launch.first_row + launch.rows;
  const int end = span_end < all ? span_end : all;
  if (begin >= end) return {begin, 0, 0, 0};
  const int pieces = launch.pieces(launch.visible(span, end - 1));
  return {begin, end - begin, pieces, (end - begin + launch.rows_at_once - 1) / launch.rows_at_once * pieces};
}

// The number of groups of a piece, if the row has `pieces` pieces; at most kMostIndexGroups for a row.
SLUICE_HD constexpr int index_groups(int pieces) {
  return pieces <= 8 ? 1024 : pieces <= 32 ? 256 : pieces <= 128 ? 64 : 16;
}

// Enqueues the first kernel: each team has a piece.
void score_entries(const Exec& exec, const IndexLaunch& launch, std::int64_t teams);
// Enqueues the second kernel: clusters of `cluster` teams, each with a row. `most`: the most entries of a row.
void choose_entries(const Exec& exec, const IndexLaunch& launch, int most, int cluster);

}  // namespace sluice::cuda_sm90
