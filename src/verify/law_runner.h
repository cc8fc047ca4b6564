// Functions on a Runner that both halves of the proof use. Thread safety: the runner's.
// Used by verify.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <span>

#include "engine/runner/runner.h"
#include "sluice/status.h"

namespace sluice {

// Checks what must hold when no sequence is left: the audit passes, and no page, place or swap space is in use.
Status check_at_rest(const Runner& runner);
// Sets the number of threads. Fails if the runner then has another number.
Status use_threads(Runner& runner, int threads);
// Cached pages that were given to others since the pools were made.
std::uint64_t evictions(const Runner& runner);

// A digest of the sequence that `digest` stands for with a value appended.
inline std::uint64_t mixed(std::uint64_t digest, std::integral auto value) {
  digest = (digest ^ static_cast<std::uint64_t>(value)) * 0x9E3779B97F4A7C15U;
  return digest ^ digest >> 29;
}

// bit_digest: 64 bits that stand for the bits of a row of floats, so that references of any size are small.

inline std::uint64_t bit_digest(std::span<const float> row) {
  std::uint64_t digest = 0xCBF29CE484222325U;
  for (const float value : row) digest = mixed(digest, std::bit_cast<std::uint32_t>(value));
  return digest;
}

}  // namespace sluice
