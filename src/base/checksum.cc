// Used by base/storage, cache/pages, files, model/packing and model/weights.
#include "base/checksum.h"

#include <bit>
#include <cstring>

namespace sluice {
namespace {

// Odd, so that multiplying by them loses nothing.
constexpr std::uint64_t kLaneFactor = 0x9E3779B97F4A7C15U, kFoldFactor = 0xD6E8FEB86659FD93U;

std::uint64_t add(std::uint64_t state, std::uint64_t word) {
  return std::rotl((state ^ word) * kLaneFactor, 29);
}

}  // namespace

std::uint64_t checksum(std::span<const std::byte> bytes) {
  // Independent chains hide the latency of the multiplication.
  constexpr std::size_t kLanes = 8, kLineBytes = kLanes * sizeof(std::uint64_t);
  std::uint64_t lanes[kLanes];
  for (std::size_t l = 0; l < kLanes; ++l) lanes[l] = l + 1;
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= kLineBytes; left -= kLineBytes, at += kLineBytes) {
    std::uint64_t words[kLanes];
    std::memcpy(words, at, kLineBytes);
    for (std::size_t l = 0; l < kLanes; ++l) lanes[l] = add(lanes[l], words[l]);
  }
  std::uint64_t rest[kLanes]{};
  if (left > 0) std::memcpy(rest, at, left);
  std::uint64_t sum = bytes.size();
  for (std::size_t l = 0; l < kLanes; ++l) sum = std::rotl((sum ^ add(lanes[l], rest[l])) * kFoldFactor, 31);
  return sum;
}

}  // namespace sluice
