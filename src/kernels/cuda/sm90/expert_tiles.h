// Experts with many rows each, where their weights are in strips (expert_tiles.cu). Those of bf16 and FP8 with few
// rows, too: a tile reads a weight once for all rows that meet it.
#pragma once

#include "kernels/cuda/shared/expert_pairs.h"
#include "kernels/cuda/sm90/sm90_ops.h"

namespace sluice::cuda_sm90 {

// Sizes of groups that suit so many rows with so many slots each.
cuda_ops::GroupSizes expert_tile_sizes(StripKind kind, int rows, int slots, int experts);

struct ExpertTiles {
  StripProduct gate, up, down;  // of all groups
  cuda_ops::GroupSizes sizes;   // expert_tile_sizes()
  const std::int32_t* begin;    // of each size its first group, and their end
  int groups;                   // at most so many
  const ExpertWeights* expert;  // any, as all are alike
  std::uint16_t* m;             // [pairs, inter]
  std::uint16_t* whole;         // down's inputs: m of all ranks, m itself where one has all
  const float* weights;         // of pairs
  Activation activation;
  std::int64_t pairs;
  bool rounds;  // m to the values of InputForm::kFp8
};
// Two launches for each size. inter is a multiple of 64; gate, up and down are of one kind.
void multiply_expert_tiles(const Exec& exec, const ExpertTiles& of);
void multiply_bf16_expert_tiles(const Exec& exec, const ExpertTiles& of);
void multiply_fp8_expert_tiles(const Exec& exec, const ExpertTiles& of);

}  // namespace sluice::cuda_sm90
