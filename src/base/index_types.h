// Index spaces are types: a page of one pool cannot be used to address another, and a row is not a position.
//
// StrongIndex is a 32-bit integer with a tag. Convert explicitly: `value`, and the constructor.
// Used by many folders, among them cache, engine and kernels.
#pragma once

#include <compare>
#include <cstdint>

namespace sluice {

template <class Tag>
struct StrongIndex {
  std::int32_t value = -1;  // -1: none

  constexpr StrongIndex() = default;
  constexpr explicit StrongIndex(std::int32_t v) : value(v) {}
  constexpr explicit operator bool() const { return value >= 0; }
  friend constexpr auto operator<=>(StrongIndex, StrongIndex) = default;
};

using LatentPage = StrongIndex<struct LatentPageTag>;  // a page of the latent pool
using WindowPage = StrongIndex<struct WindowPageTag>;  // a page of the window pool
using BlockIndex = StrongIndex<struct BlockIndexTag>;  // block b of a sequence: positions [128 b, 128 b + 128)
using SequenceId = StrongIndex<struct SequenceIdTag>;  // a sequence known to the engine
using PlaneId = StrongIndex<struct PlaneIdTag>;        // a plane of a CacheLayout

using TokenId = std::int32_t;
using Position = std::int32_t;  // absolute, 0-based

inline constexpr int kBlockTokens = 128;  // every compression boundary of V4 divides it

}  // namespace sluice
