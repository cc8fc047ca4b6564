// Products of weights in strips (kernels/cuda/strip_layout.h) with rows of bf16 values.
// Used by kernels/cuda/sm90.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/shared/linear_products.h"
#include "kernels/cuda/strip_layout.h"

namespace sluice::cuda_sm90 {

using cuda_ops::RowGroup;

// y [rows, out] = W x. Row r of x is row x_rows[r], or r if that is null.
struct StripProduct {
  StripLinear weight;
  const std::byte* data = nullptr;   // the packed weight, if there are no groups
  const std::uint16_t* x = nullptr;  // bf16, rows of weight.padded_in() values, aligned to 16 bytes
  std::ptrdiff_t ldx = 0;            // in values, a multiple of 8
  const std::int32_t* x_rows = nullptr;
  float* y = nullptr;
  std::ptrdiff_t ldy = 0;
  // y once more, as bf16, in rows of ld_rounded values; null: not wanted. Only for up to kSomeRows rows.
  std::uint16_t* rounded = nullptr;
  std::ptrdiff_t ld_rounded = 0;
  // If not null, a row's weight is its group's; StripRows has the number of groups, of which some may be empty.
  const RowGroup* groups = nullptr;
};
inline constexpr int kMostStripProducts = 16;  // products of a launch

// Rows that a kernel multiplies at once; a group has at most this many.
inline constexpr int kFewRows = 8, kSomeRows = 16, kManyRows = 64, kTileRows = 128;
// All products have `rows` rows, or `group_count` groups of at most kernel_rows rows. kernel_rows, one of these,
// selects the kernel (kTileRows: no groups), and `cut` its way to cut the work; all give the same bits.
struct StripRows {
  // kNarrow: segments of a strip at once; kSegments: each segment like a product of its own; kWide: more strips to a
  // warp (kernels without a way of that name ignore it); kAny: the fastest.
  enum class Cut { kAny, kNarrow, kSegments, kPlain, kWide };

  int rows = 0, group_count = 0;
  int kernel_rows = kManyRows;
  Cut cut = Cut::kAny;
  std::size_t workspace_used = SIZE_MAX;  // bytes at the start that are in use; products need the rest for segments

  static StripRows of(int rows) {
    return {.rows = rows,
            .kernel_rows = rows <= kFewRows    ? kFewRows
                           : rows <= kSomeRows ? kSomeRows
                           : rows <= kManyRows ? kManyRows
                                               : kTileRows};
  }
  int tiles() const { return group_count > 0 ? group_count : (rows + kernel_rows - 1) / kernel_rows; }
};
void multiply_strips(const Exec& exec, const StripRows& rows, std::span<const StripProduct> products);
// Multiplies products of one kind, at most kMostStripProducts.
void multiply_few(const Exec& exec, const StripRows& rows, std::span<const StripProduct> products);
// Multiplies products of both kinds in one launch, with up to kFewRows rows and no groups.
void multiply_few_of_two(const Exec& exec, const StripRows& rows, std::span<const StripProduct> fp8,
                         std::span<const StripProduct> bf16);
void multiply_many(const Exec& exec, const StripRows& rows, std::span<const StripProduct> products);
void multiply_tiles(const Exec& exec, const StripRows& rows, std::span<const StripProduct> products);
// Multiplies each segment of these as a product of its own, of tiles, and adds their sums in order. Returns false if
// that does not suit, or is not possible.
bool multiply_segments(const Exec& exec, const StripRows& rows, std::span<const StripProduct> products);
// True if these fill the GPU with tiles.
bool fills_tiles(const Exec& exec, const StripRows& rows, std::span<const StripProduct> products);

// The products of a launch, and the first team of each.
struct StripLaunch {
  StripProduct products[kMostStripProducts];
  std::int32_t first_team[kMostStripProducts];
  std::int32_t count, rows, tile_rows;
};

// The tile that a team multiplies.
struct StripTile {
  const StripProduct* product;
  RowGroup group;
  int index;  // the tile's number among the teams with the same rows
};

// Returns the tile of team `team`. With groups, the teams of a product are those of its first group, then of the next.
// Without, they are those of its first strips for all tiles of rows, then of the next strips. A team has `strips`
// strips. For products in groups it waits for the kernels before.
SLUICE_DEVICE StripTile strip_tile(const StripLaunch& launch, int team, int strips) {
  int i = 0;
  while (i + 1 < launch.count && team >= launch.first_team[i + 1]) ++i;
  const StripProduct& product = launch.products[i];
  const int teams = (product.weight.strips + strips - 1) / strips, at = team - launch.first_team[i];
  StripTile tile{&product, {product.data, 0, 0}, 0};
  if (product.groups != nullptr) {
    cuda_ops::wait_for_kernels();
    tile.group = product.groups[at / teams];
    tile.index = at % teams;
  } else {  // tiles of the same strips are next to each other, so that their weights are read from memory once
    const int row_tiles = (launch.rows + launch.tile_rows - 1) / launch.tile_rows;
    tile.group.first = at % row_tiles * launch.tile_rows;
    tile.group.rows =
        launch.rows - tile.group.first < launch.tile_rows ? launch.rows - tile.group.first : launch.tile_rows;
    tile.index = at / row_tiles;
  }
  return tile;
}

}  // namespace sluice::cuda_sm90
