// Whether `--profile amx` would read prompts faster here than the default profile: judged by the model's products and
// the machine's measured peaks, not by whether the processor has tiles, as it may be slow at them, and the default
// profile fast where all weights are integers. Thread safety: pure functions.
#pragma once

#include <span>
#include <string>

#include "config/model_config.h"
#include "kernels/device/bare_loops.h"
#include "model/weights/bound_weight.h"

namespace sluice {

// Of the linears of a prompt's row in either profile.
struct ProfilePeaks {
  double by_default = 0, by_tiles = 0;  // were all its products bare ones, in 1e9 operations a second; 0: no products
  double times_as_fast = 0;             // tiles are expected to be, after what kernels reach of bare products
};

// `weights` as the default profile bound them. Attention, in which tiles gain more, does not count.
ProfilePeaks compare_profiles(std::span<const BoundWeight> weights, const MoeConfig& moe, const Peaks& peaks);

// What start-up says; empty unless tiles are expected to be at least so many times as fast.
inline constexpr double kWorthSaying = 1.2;
std::string tiles_advice(const ProfilePeaks& peaks);

}  // namespace sluice
