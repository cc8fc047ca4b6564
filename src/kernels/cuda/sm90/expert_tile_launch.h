// Launches of the tiles of experts, of one kind of weights (expert_tiles.cu and its neighbours).
// Used by expert_tiles.cu, expert_tiles_bf16.cu and expert_tiles_fp8.cu.
#pragma once

#include "kernels/cuda/sm90/expert_tiles.h"
#include "kernels/cuda/sm90/tile_products.h"

namespace sluice::cuda_sm90 {

// kStrips: strips of a warp. kRows: the sizes of groups that there are kernels for.
template <StripKind kKind, int kStrips, int... kRows>
void launch_expert_tiles(const Exec& exec, const ExpertTiles& of) {
  const auto tiles = [&](const StripProduct& product, int strips) {
    return of.groups * ((product.weight.strips + strips - 1) / strips);
  };
  TileLaunch inner{}, down{};
  inner.count = down.count = 1;
  inner.products[0] = of.gate, inner.products[1] = of.up, down.products[0] = of.down;
  inner.tiles = tiles(of.gate, 4 * kStrips), down.tiles = tiles(of.down, 8 * kStrips);
  inner.m = of.m, inner.weights = of.weights, inner.activation = of.activation;
  for (TileLaunch* product : {&inner, &down}) {
    if (product == &down) gather_inner(exec, of.pairs, *of.expert, of.m, of.whole);
    if (product == &down && of.rounds) round_rows_to_fp8(exec, of.pairs, of.down.weight.in, of.whole);
    for (int i = of.sizes.count - 1; i >= 0; --i) {
      product->groups = of.begin + i;
      product->follows = i + 1 < of.sizes.count;
      const auto launch = [&]<int kOfTile>() {
        if (kOfTile != of.sizes.rows[i]) return;
        product == &inner ? launch_tiles<kKind, kStrips, kOfTile, TileOutput::kInner>(exec, *product)
                          : launch_tiles<kKind, kStrips, kOfTile, TileOutput::kY>(exec, *product);
      };
      (launch.template operator()<kRows>(), ...);
    }
  }
}

}  // namespace sluice::cuda_sm90
