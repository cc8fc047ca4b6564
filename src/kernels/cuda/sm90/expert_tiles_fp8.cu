// Experts of FP8 in tiles, with scales of either format.
// Used by expert_tiles.cu and expert_tiles_bf16.cu.
#include "kernels/cuda/sm90/expert_tile_launch.h"

namespace sluice::cuda_sm90 {

void multiply_fp8_expert_tiles(const Exec& exec, const ExpertTiles& of) {
  of.gate.weight.kind == StripKind::kFp8 ? launch_expert_tiles<StripKind::kFp8, 1, 64, 128>(exec, of)
                                         : launch_expert_tiles<StripKind::kFp8Scaled, 1, 64, 128>(exec, of);
}

}  // namespace sluice::cuda_sm90
