// bit_digest: 64 bits that stand for the bits of a row of floats, so that references of any size are small.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

namespace sluice {

inline std::uint64_t bit_digest(std::span<const float> row) {
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (const float value : row) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof(bits));
    hash = (hash ^ bits) * 0x9E3779B97F4A7C15U;
    hash ^= hash >> 29;
  }
  return hash;
}

}  // namespace sluice
