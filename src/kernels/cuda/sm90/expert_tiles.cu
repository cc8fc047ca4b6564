// Experts of MXFP4 in tiles, and the sizes of groups for each kind of experts.
// Used by expert_tile_launch.h and sm90_experts.cu.
#include "kernels/cuda/sm90/expert_tiles.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "kernels/cuda/sm90/expert_tile_launch.h"

namespace sluice::cuda_sm90 {
namespace {

// The sizes that the kernels of a kind have, ascending.
std::span<const int> rows_of_tiles(StripKind kind) {
  static constexpr int kMxfp4[] = {32, 48, 56, 64, 80, 96, 104, 112}, kBf16[] = {32, 64, 96, 128, 192},
                       kFp8[] = {64, 128};
  if (kind == StripKind::kMxfp4) return kMxfp4;
  return kind == StripKind::kBf16 ? std::span<const int>(kBf16) : std::span<const int>(kFp8);
}

}  // namespace

// The sizes for experts that have about as many rows as each other, and a few for other experts. If no expert has more
// rows than a tile, there are few sizes: the weights' bytes bound them, however many rows a tile has.
cuda_ops::GroupSizes expert_tile_sizes(StripKind kind, int rows, int slots, int experts) {
  const std::span<const int> all = rows_of_tiles(kind);
  const double mean = static_cast<double>(rows) * slots / experts;
  bool wanted[cuda_ops::GroupSizes::kMost] = {};
  const auto want = [&](int of_group) { wanted[std::ranges::lower_bound(all, of_group) - all.begin()] = true; };
  if (kind != StripKind::kMxfp4 && rows <= all.back()) {
    want(rows);
    if (rows > 64) want(64);
  } else {
    for (const double away : {-1.5, -0.8, -0.25, 0.25, 0.8, 1.5}) {
      const int of_expert = std::max(1, static_cast<int>(mean + away * std::sqrt(mean)));
      const int groups = (of_expert + all.back() - 1) / all.back();
      want((of_expert + groups - 1) / groups);
    }
    for (const int of_group : {32, 64, all.back()}) want(of_group);
  }
  cuda_ops::GroupSizes sizes;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (wanted[i]) sizes.rows[sizes.count++] = all[i];
  }
  return sizes;
}

void multiply_expert_tiles(const Exec& exec, const ExpertTiles& of) {
  switch (of.gate.weight.kind) {
    case StripKind::kBf16:
      return multiply_bf16_expert_tiles(exec, of);
    case StripKind::kFp8:
    case StripKind::kFp8Scaled:
      return multiply_fp8_expert_tiles(exec, of);
    case StripKind::kMxfp4:
      return launch_expert_tiles<StripKind::kMxfp4, 2, 32, 48, 56, 64, 80, 96, 104, 112>(exec, of);
  }
}

}  // namespace sluice::cuda_sm90
