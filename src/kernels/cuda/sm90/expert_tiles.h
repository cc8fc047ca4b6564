// Experts with many rows each whose weights are in strips (expert_tiles.cu), and those of bf16 and FP8 with few rows,
// too: a tile reads a weight once for all its rows.
// Used by expert_tile_launch.h and sm90_experts.cu.
#pragma once

#include "kernels/cuda/shared/expert_pairs.h"
#include "kernels/cuda/sm90/sm90_ops.h"

namespace sluice::cuda_sm90 {

// Returns sizes of groups that suit `rows` rows with `slots` slots each.
cuda_ops::GroupSizes expert_tile_sizes(StripKind kind, int rows, int slots, int experts);

struct ExpertTiles {
  StripProduct gate, up, down;  // the products of all groups
  cuda_ops::GroupSizes sizes;   // expert_tile_sizes()
  const std::int32_t* begin;    // by size: its first group; at last the end of all groups
  int groups;                   // the most groups that there may be
  const ExpertWeights* expert;  // one of the experts, as all have the same shapes
  std::uint16_t* m;             // [pairs, inter]
  std::uint16_t* whole;         // down's inputs: m of all ranks; m itself if one rank has all
  const float* weights;         // the pairs' weights
  Activation activation;
  std::int64_t pairs;
  bool rounds;  // rounds m to the values of InputForm::kFp8
};
// Makes two launches for each size. inter is a multiple of 64; gate, up and down are of one kind.
void multiply_expert_tiles(const Exec& exec, const ExpertTiles& of);
void multiply_bf16_expert_tiles(const Exec& exec, const ExpertTiles& of);
void multiply_fp8_expert_tiles(const Exec& exec, const ExpertTiles& of);

}  // namespace sluice::cuda_sm90
