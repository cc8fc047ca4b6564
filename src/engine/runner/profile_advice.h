// Judges whether `--profile amx` would read prompts faster here than the default profile, by the model's products and
// the machine's measured peaks. That the processor has tiles is not enough: it may be slow at them, and the default
// profile is fast if all weights are integers. Thread safety: pure functions.
// Used by engine/load.cc.
#pragma once

#include <span>
#include <string>

#include "config/model_config.h"
#include "kernels/device/bare_loops.h"
#include "model/weights/bound_weight.h"

namespace sluice {

// Speeds of the linears of a prompt's row in either profile.
struct ProfilePeaks {
  double by_default = 0, by_tiles = 0;  // 1e9 operations a second if all products were bare ones; 0: no products
  double times_as_fast = 0;             // expected of tiles, given what kernels reach of bare products
};

// `weights` as the default profile bound them. Attention, in which tiles gain more, does not count.
ProfilePeaks compare_profiles(std::span<const BoundWeight> weights, const MoeConfig& moe, const Peaks& peaks);

// Returns the advice that start-up prints; empty unless tiles are expected to be at least kWorthSaying times as fast.
inline constexpr double kWorthSaying = 1.2;
std::string tiles_advice(const ProfilePeaks& peaks);

}  // namespace sluice
