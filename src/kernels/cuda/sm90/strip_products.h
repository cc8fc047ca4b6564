// Products of weights in strips (kernels/cuda/strip_layout.h) with rows of bf16 values.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/shared/linear_products.h"
#include "kernels/cuda/strip_layout.h"

namespace sluice::cuda_sm90 {

using cuda_ops::RowGroup;

// y [rows, out] = W x. Row r of x is row x_rows[r], or r where that is null.
struct StripProduct {
  StripLinear weight;
  const std::byte* data = nullptr;   // the packed weight, where there are no groups
  const std::uint16_t* x = nullptr;  // bf16, rows of weight.padded_in() values, aligned to 16 bytes
  std::ptrdiff_t ldx = 0;            // in values, a multiple of 8
  const std::int32_t* x_rows = nullptr;
  float* y = nullptr;
  std::ptrdiff_t ldy = 0;
  // y once more, as bf16, in rows of ld_rounded values; null: not wanted. Up to kSomeRows rows only.
  std::uint16_t* rounded = nullptr;
  std::ptrdiff_t ld_rounded = 0;
  // Not null: the weight is that of the group of a row, and so many groups there are, some of them maybe empty.
  const RowGroup* groups = nullptr;
};
inline constexpr int kMostStripProducts = 16;  // of a launch

// Rows that a kernel multiplies at once: of a group at most so many.
inline constexpr int kFewRows = 8, kSomeRows = 16, kManyRows = 64, kTileRows = 128;
// `rows` to all of the products, or `group_count` groups of at most kernel_rows rows. kernel_rows, one of these, says
// which kernel (kTileRows: no groups), and `cut` how it cuts its work; all give the same bits.
struct StripRows {
  // kNarrow: segments of a strip at once; kSegments: each like a product of its own; kWide: more strips to a warp, each
  // where the kernel has that; kAny: as it suits.
  enum class Cut { kAny, kNarrow, kSegments, kPlain, kWide };

  int rows = 0, group_count = 0;
  int kernel_rows = kManyRows;
  Cut cut = Cut::kAny;
  std::size_t workspace_used = SIZE_MAX;  // its first bytes, of which products need the others for segments

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
// Of one kind, at most kMostStripProducts.
void multiply_few(const Exec& exec, const StripRows& rows, std::span<const StripProduct> products);
// Of both kinds, up to kFewRows rows, no groups: one launch.
void multiply_few_of_two(const Exec& exec, const StripRows& rows, std::span<const StripProduct> fp8,
                         std::span<const StripProduct> bf16);
void multiply_many(const Exec& exec, const StripRows& rows, std::span<const StripProduct> products);
void multiply_tiles(const Exec& exec, const StripRows& rows, std::span<const StripProduct> products);
// Each segment of these as a product of its own, of tiles, whose sums are added in order. False: that is not as it
// suits, or not possible.
bool multiply_segments(const Exec& exec, const StripRows& rows, std::span<const StripProduct> products);
// Whether these fill the GPU with tiles.
bool fills_tiles(const Exec& exec, const StripRows& rows, std::span<const StripProduct> products);

// The products of a launch, and which of its teams belong to which.
struct StripLaunch {
  StripProduct products[kMostStripProducts];
  std::int32_t first_team[kMostStripProducts];
  std::int32_t count, rows, tile_rows;
};

// What a team multiplies.
struct StripTile {
  const StripProduct* product;
  RowGroup group;
  int index;  // among the teams of its rows
};

// The tile of team `team`, where each product's teams are those of its first rows, then the next; `strips` of it to a
// team. For products in groups it waits for the kernels before.
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
  } else {  // tiles of the same strips side by side, so that their weights are read from memory once
    const int row_tiles = (launch.rows + launch.tile_rows - 1) / launch.tile_rows;
    tile.group.first = at % row_tiles * launch.tile_rows;
    tile.group.rows =
        launch.rows - tile.group.first < launch.tile_rows ? launch.rows - tile.group.first : launch.tile_rows;
    tile.index = at / row_tiles;
  }
  return tile;
}

}  // namespace sluice::cuda_sm90
