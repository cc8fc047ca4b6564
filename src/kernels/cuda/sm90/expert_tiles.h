// Experts with many rows each, where their weights are MXFP4 in strips (expert_tiles.cu).
#pragma once

#include "kernels/cuda/sm90/strip_products.h"

namespace sluice::cuda_sm90 {

// Rows of a group that suit so many pairs.
int expert_tile_rows(int pairs, int experts);

struct ExpertTiles {
  StripProduct gate, up, down;  // of all groups
  const std::int32_t* used;     // how many groups there are, and at most
  int groups, group_rows;       // group_rows: expert_tile_rows()
  std::uint16_t* m;             // [pairs, inter], down's inputs
  const float* weights;         // of pairs
  float limit;
  std::int64_t pairs;
  bool rounds;  // m to the values of InputForm::kFp8
};
// Two launches. inter is a multiple of 64.
void multiply_expert_tiles(const Exec& exec, const ExpertTiles& of);

}  // namespace sluice::cuda_sm90
