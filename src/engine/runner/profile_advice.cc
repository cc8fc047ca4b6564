// Used by engine/load.cc.
#include "engine/runner/profile_advice.h"

#include <fmt/format.h>

namespace sluice {
namespace {

// The part of bare products that kernels reach at 512 rows: 65 to 70 % with vectors, and a sixth to a quarter with
// tiles, which wait for their operands (docs/performance.md).
constexpr double kVectorsReach = 0.65, kTilesReach = 0.25;

// Multiply-adds of a row of a prompt, whose logits are not wanted.
double multiply_adds(const BoundWeight& weight, const MoeConfig& moe) {
  const double all = static_cast<double>(weight.out) * static_cast<double>(weight.in);
  switch (weight.role) {
    case WeightRole::kEveryRow:
    case WeightRole::kIndexScores:
      return all;
    case WeightRole::kRoutedExpert:
      return all * moe.num_experts_per_tok / moe.n_routed_experts;
    case WeightRole::kLookedUp:
    case WeightRole::kLogits:
    case WeightRole::kDrafted:
    case WeightRole::kNotUsed:
      return 0;
  }
  return 0;
}

}  // namespace

ProfilePeaks compare_profiles(std::span<const BoundWeight> weights, const MoeConfig& moe, const Peaks& peaks) {
  if (peaks.tiles <= 0 || peaks.f32 <= 0) return {};
  double all = 0, bare_default = 0, bare_tiles = 0, by_default = 0, by_tiles = 0;  // multiply-adds; their times
  for (const BoundWeight& weight : weights) {
    const double work = multiply_adds(weight, moe);
    const InputForm other =
        weight.inputs == InputForm::kF32 ? InputForm::kF32 : input_form(InputForm::kTiles, weight.format);
    const double before = work / peaks.of(weight.inputs), after = work / peaks.of(other);
    all += work;
    bare_default += before;
    bare_tiles += after;
    by_default += before / kVectorsReach;
    by_tiles += after / (other == InputForm::kTiles ? kTilesReach : kVectorsReach);
  }
  if (all <= 0) return {};
  return {all / bare_default, all / bare_tiles, by_default / by_tiles};
}

std::string tiles_advice(const ProfilePeaks& peaks) {
  if (peaks.times_as_fast < kWorthSaying) return {};
  return fmt::format(
      "a thread's bare products for this model: {:.0f} GFLOP/s on AMX tiles, {:.0f} as the default profile forms them; "
      "--profile amx is expected to read prompts {:.1f} times as fast",
      peaks.by_tiles, peaks.by_default, peaks.times_as_fast);
}

}  // namespace sluice
