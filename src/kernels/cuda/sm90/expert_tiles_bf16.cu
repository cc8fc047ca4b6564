// Experts of bf16 in tiles.
// Used by expert_tiles.cu and expert_tiles_fp8.cu.
#include "kernels/cuda/sm90/expert_tile_launch.h"

namespace sluice::cuda_sm90 {

void multiply_bf16_expert_tiles(const Exec& exec, const ExpertTiles& of) {
  launch_expert_tiles<StripKind::kBf16, 1, 32, 64, 96, 128, 192>(exec, of);
}

}  // namespace sluice::cuda_sm90
