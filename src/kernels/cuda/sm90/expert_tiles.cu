#include "kernels/cuda/sm90/expert_tiles.h"

#include <algorithm>
#include <cmath>

#include "kernels/cuda/sm90/ops.h"
#include "kernels/cuda/sm90/tile_products.h"

namespace sluice::cuda_sm90 {
namespace {

constexpr int kRowsOfTiles[] = {32, 64, 112};

template <int kRows>
void launch(const Exec& exec, const ExpertTiles& of, const TileLaunch& inner, const TileLaunch& down) {
  launch_tiles<StripKind::kMxfp4, 2, kRows, TileOutput::kInner>(exec, inner);
  if (of.rounds) round_rows_to_fp8(exec, of.pairs, of.down.weight.in, of.m);
  launch_tiles<StripKind::kMxfp4, 2, kRows, TileOutput::kY>(exec, down);
}

int tiles_of(int groups, const StripProduct& product, int strips) {
  return groups * ((product.weight.strips + strips - 1) / strips);
}

}  // namespace

// What tiles of the experts take in the mean, where an expert has about the same number of rows as another: as much as
// their rows, and about 40 for the weights.
int expert_tile_rows(int pairs, int experts) {
  const double mean = static_cast<double>(pairs) / experts;
  int best = kRowsOfTiles[0];
  double least = 1e30;
  for (const int rows : kRowsOfTiles) {
    double cost = 0.0;
    for (const double away : {-1.5, -0.8, -0.25, 0.25, 0.8, 1.5}) {
      const double of_expert = std::max(1.0, mean + away * std::sqrt(mean));
      cost += std::ceil(of_expert / rows) * (rows + 40);
    }
    if (cost < least) least = cost, best = rows;
  }
  return best;
}

void multiply_expert_tiles(const Exec& exec, const ExpertTiles& of) {
  TileLaunch inner{}, down{};
  inner.count = down.count = 1;
  inner.used = down.used = of.used;
  inner.products[0] = of.gate, inner.products[1] = of.up, down.products[0] = of.down;
  inner.tiles = tiles_of(of.groups, of.gate, 8), down.tiles = tiles_of(of.groups, of.down, 16);
  inner.m = of.m, inner.weights = of.weights, inner.limit = of.limit;
  switch (of.group_rows) {
    case 32:
      return launch<32>(exec, of, inner, down);
    case 64:
      return launch<64>(exec, of, inner, down);
    default:
      return launch<112>(exec, of, inner, down);
  }
}

}  // namespace sluice::cuda_sm90
