// Products with hundreds of rows, of weights that are not experts' (tile_products.h).
#include <algorithm>
#include <vector>

#include "kernels/cuda/sm90/tile_products.h"

namespace sluice::cuda_sm90 {
namespace {

// Strips of a tile.
int tile_strips(const StripProduct& product) {
  return product.weight.segments == 1 && product.weight.kind != StripKind::kFp8Scaled ? 16 : 8;
}
// Rows of tiles of 16 strips, whose warps have no registers for more than 112: the lesser of what tiles take, as much
// as their rows and about 40 for the weights.
int wide_tile_rows(int rows) {
  const auto cost = [&](int of_tile) { return (rows + of_tile - 1) / of_tile * (of_tile + 40); };
  return cost(64) < cost(112) ? 64 : 112;
}
std::int64_t tiles_of(int rows, const StripProduct& product) {
  const int strips = tile_strips(product), of_tile = strips == 16 ? wide_tile_rows(rows) : kTileRows;
  return std::int64_t{(product.weight.strips + strips - 1) / strips} * ((rows + of_tile - 1) / of_tile);
}

template <StripKind kKind>
void launch(const Exec& exec, int rows, std::span<const StripProduct> products) {
  for (const int strips : {8, 16}) {
    TileLaunch launch{};
    launch.rows = rows;
    for (const StripProduct& product : products) {
      if (tile_strips(product) != strips) continue;
      launch.products[launch.count] = product;
      launch.first_tile[launch.count++] = launch.tiles;
      launch.tiles += static_cast<std::int32_t>(tiles_of(rows, product));
    }
    if (launch.count == 0) continue;
    if constexpr (kKind != StripKind::kMxfp4) {
      if (strips == 8) launch_tiles<kKind, 1, kTileRows, TileOutput::kY>(exec, launch);
    }
    if constexpr (kKind != StripKind::kFp8Scaled) {
      if (strips == 8) continue;
      wide_tile_rows(rows) == 64 ? launch_tiles<kKind, 2, 64, TileOutput::kY>(exec, launch)
                                 : launch_tiles<kKind, 2, 112, TileOutput::kY>(exec, launch);
    }
  }
}

}  // namespace

bool fills_tiles(const Exec& exec, const StripRows& rows, std::span<const StripProduct> products) {
  std::int64_t tiles = 0;
  for (const StripProduct& product : products) {
    // Up to 64 rows, of which tiles of 8 strips would have more than they can.
    if (rows.rows <= kManyRows && tile_strips(product) == 8) return false;
    tiles += tiles_of(rows.rows, product);
  }
  return (rows.rows <= kManyRows ? 3 * tiles / 2 : 2 * tiles) >= cuda_ops::processors(exec);
}

void multiply_tiles(const Exec& exec, const StripRows& rows, std::span<const StripProduct> products) {
  switch (products[0].weight.kind) {
    case StripKind::kBf16:
      return launch<StripKind::kBf16>(exec, rows.rows, products);
    case StripKind::kFp8:
      return launch<StripKind::kFp8>(exec, rows.rows, products);
    case StripKind::kFp8Scaled:
      return launch<StripKind::kFp8Scaled>(exec, rows.rows, products);
    case StripKind::kMxfp4:
      return launch<StripKind::kMxfp4>(exec, rows.rows, products);
  }
}

}  // namespace sluice::cuda_sm90
