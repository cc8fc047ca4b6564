// The noise of kernels/ops/sample.h: a number of the Gumbel distribution for each token id of a position. It is a
// function of (seed, position, id) only.
//
//   word  the (id mod 4)-th of philox4x32 with counter (id / 4, position, 0, 0) and the seed as its key
//   u     (word + 1/2) * 2^-32
//   E     -log(1 - u), exponential;  g = -log(E)
// A large g comes from a small u, and u, like 1 - u at the other end, goes down to 2^-33 in steps of 2^-32, with 24
// bits of precision; so g lies in [-3.13, 22.88]. A token of probability 2^-30 is drawn within 0.3 % as often as it
// should be, one of 2^-33 15 % too rarely, and one of 2^-36 hardly ever.
// Used by kernels/cpu/cpu_sample.cc, kernels/cuda/shared/sample_parts.h and kernels/ref/ref_sample.cc.
#pragma once

#include <bit>
#include <cstdint>

#include "base/index_types.h"
#include "base/philox.h"
#include "kernels/common/math.h"

namespace sluice {

inline constexpr float kMaxNoise = 22.88F, kMinNoise = -3.14F;  // no noise is above, below it

// The random words of ids [4 call, 4 call + 4).
SLUICE_HD inline PhiloxCounter noise_words(std::uint64_t seed, Position position, std::uint32_t call) {
  return philox4x32({call, static_cast<std::uint32_t>(position), 0, 0},
                    {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
}
SLUICE_HD inline std::uint32_t noise_word(std::uint64_t seed, Position position, TokenId id) {
  const auto i = static_cast<std::uint32_t>(id);
  return noise_words(seed, position, i / 4)[i % 4];
}

// In f32: x = min(u, 1 - u) keeps its digits at both ends; E = -log1p(-x) for words below 2^31, -log(x) from there on.
SLUICE_HD inline float gumbel_noise(std::uint32_t word) {
  const bool low = word < 0x80000000U;
  const float x = (static_cast<float>(static_cast<std::int32_t>(low ? word : ~word)) + 0.5F) * 0x1p-32F;
  return -log_f32(low ? -log1p_f32(-x) : -log_f32(x));
}

// Returns an upper bound of gumbel_noise(word), off by at most 0.07 for large noise. It uses g <= -log(u). A float's
// bits, read as an integer, are its logarithm to base 2 drawn with straight lines, from below. A word below 256 counts
// as 0, whose bound is far above all noise. The slack covers all roundings.
SLUICE_HD inline float noise_bound(std::uint32_t word) {
  constexpr float kLn2 = 0.693147181F, kSlack = 1e-3F;
  const auto h = static_cast<float>(static_cast<std::int32_t>(word >> 8));  // u >= h * 2^-24
  return (kLn2 * (127 + 24) + kSlack) - static_cast<float>(std::bit_cast<std::int32_t>(h)) * (kLn2 * 0x1p-23F);
}

}  // namespace sluice
