#include <algorithm>
#include <cmath>
#include <iterator>

#include "kernels/cuda/sm90/expert_tiles.h"
#include "kernels/cuda/sm90/ops.h"
#include "kernels/cuda/sm90/tile_products.h"

namespace sluice::cuda_sm90 {
namespace {

constexpr int kRowsOfTiles[] = {32, 48, 56, 64, 80, 96, 104, kExpertTileRows};

template <int kRows>
void launch(const Exec& exec, const TileLaunch& launch, bool inner) {
  inner ? launch_tiles<StripKind::kMxfp4, 2, kRows, TileOutput::kInner>(exec, launch)
        : launch_tiles<StripKind::kMxfp4, 2, kRows, TileOutput::kY>(exec, launch);
}
template <int... kIndex>
void launch_rows(const Exec& exec, const TileLaunch& of, bool inner, int rows, std::integer_sequence<int, kIndex...>) {
  ((kRowsOfTiles[kIndex] == rows ? launch<kRowsOfTiles[kIndex]>(exec, of, inner) : void()), ...);
}

int tiles_of(int groups, const StripProduct& product, int strips) {
  return groups * ((product.weight.strips + strips - 1) / strips);
}

}  // namespace

// Those of experts that have about as many rows as each other, and a few for those that have not.
cuda_ops::GroupSizes expert_tile_sizes(int pairs, int experts) {
  const double mean = static_cast<double>(pairs) / experts;
  bool wanted[std::size(kRowsOfTiles)] = {};
  const auto want = [&](int rows) { wanted[std::ranges::lower_bound(kRowsOfTiles, rows) - kRowsOfTiles] = true; };
  for (const double away : {-1.5, -0.8, -0.25, 0.25, 0.8, 1.5}) {
    const int of_expert = std::max(1, static_cast<int>(mean + away * std::sqrt(mean)));
    const int groups = (of_expert + kExpertTileRows - 1) / kExpertTileRows;
    want((of_expert + groups - 1) / groups);
  }
  for (const int rows : {32, 64, kExpertTileRows}) want(rows);
  cuda_ops::GroupSizes sizes;
  for (std::size_t i = 0; i < std::size(kRowsOfTiles); ++i) {
    if (wanted[i]) sizes.rows[sizes.count++] = kRowsOfTiles[i];
  }
  return sizes;
}

void multiply_expert_tiles(const Exec& exec, const ExpertTiles& of) {
  TileLaunch inner{}, down{};
  inner.count = down.count = 1;
  inner.products[0] = of.gate, inner.products[1] = of.up, down.products[0] = of.down;
  inner.tiles = tiles_of(of.groups, of.gate, 8), down.tiles = tiles_of(of.groups, of.down, 16);
  inner.m = of.m, inner.weights = of.weights, inner.limit = of.limit;
  for (TileLaunch* product : {&inner, &down}) {
    if (product == &down && of.rounds) round_rows_to_fp8(exec, of.pairs, of.down.weight.in, of.m);
    for (int i = of.sizes.count - 1; i >= 0; --i) {
      product->groups = of.begin + i;
      product->follows = i + 1 < of.sizes.count;
      launch_rows(exec, *product, product == &inner, of.sizes.rows[i],
                  std::make_integer_sequence<int, static_cast<int>(std::size(kRowsOfTiles))>());
    }
  }
}

}  // namespace sluice::cuda_sm90
