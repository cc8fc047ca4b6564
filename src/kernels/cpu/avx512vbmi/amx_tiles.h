// The tile instructions for products of bf16. They are AMX's or, in a target that lacks it, emulated in plain C++, so
// that the same kernels run in tests on machines without AMX. A tile is 16 lines of 64 bytes. Tiles belong to the
// calling thread, from TileSession's begin to its end.
// Used by column_tiles.h, kernels/cpu/linear/linear_tile_row.isa.cc, kernels/cpu/linear/linear_tiles.isa.cc and
// tile_sums.h.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/target.h"
#include "kernels/device/cpu_features.h"

namespace sluice::cpu::SLUICE_ISA {

#ifdef __AMX_TILE__
inline constexpr CpuFeatures kTilesNeed{CpuFeature::kAmxBf16};
#else
inline constexpr CpuFeatures kTilesNeed{CpuFeature::kEmulatedTiles};
#endif

// The number of tiles that may have fewer than 16 lines: those for sums and for rows.
inline constexpr int kNarrowTiles = 5;

#ifdef __AMX_TILE__

// The operand of ldtilecfg: lines of 64 bytes; the first kNarrowTiles tiles have `rows` lines, the others 16.
struct alignas(64) TileShapes {
  explicit TileShapes(int rows) {
    for (int t = 0; t < kNarrowTiles; ++t) lines[t] = static_cast<std::uint8_t>(rows);
  }
  std::uint8_t palette = 1, start_row = 0, reserved[14]{};
  std::uint16_t line_bytes[16]{64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t lines[16]{16, 16, 16, 16, 16, 16, 16, 16};
};

class TileSession {
 public:
  explicit TileSession(int rows = 16) {
    const TileShapes shapes(rows);
    asm volatile("ldtilecfg %0" : : "m"(shapes));
  }
  ~TileSession() { asm volatile("tilerelease"); }
  TileSession(const TileSession&) = delete;
  TileSession& operator=(const TileSession&) = delete;
};

// Written as assembly, as GCC 12 does not know that its intrinsics read and write memory.
template <int kTile>
[[gnu::always_inline]] inline void tile_zero() {
  asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
}
template <int kTile>
[[gnu::always_inline]] inline void tile_load(const void* from, std::size_t stride = 64) {
  asm volatile("tileloadd (%1,%2,1), %%tmm%c0" : : "i"(kTile), "r"(from), "r"(stride) : "memory");
}
// Loads a tile from memory that is not read again soon, without replacing other lines in L1.
template <int kTile>
[[gnu::always_inline]] inline void tile_load_once(const void* from) {
  asm volatile("tileloaddt1 (%1,%2,1), %%tmm%c0" : : "i"(kTile), "r"(from), "r"(std::size_t{64}) : "memory");
}
template <int kTile>
[[gnu::always_inline]] inline void tile_store(void* to) {
  asm volatile("tilestored %%tmm%c0, (%1,%2,1)" : : "i"(kTile), "r"(to), "r"(std::size_t{64}) : "memory");
}
// kSum += kRows x kWeights: 16 rows of 32 inputs, 16 pairs of inputs of 16 outputs.
template <int kSum, int kRows, int kWeights>
[[gnu::always_inline]] inline void tile_multiply() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kRows), "i"(kWeights));
}

#else

inline thread_local std::uint32_t emulated_tiles[8][16][16];
inline thread_local std::size_t emulated_lines[8];

class TileSession {
 public:
  explicit TileSession(int rows = 16) {
    std::memset(emulated_tiles, 0xFF, sizeof emulated_tiles);  // NaN shows a tile that is read before it was loaded
    for (int t = 0; t < 8; ++t) emulated_lines[t] = t < kNarrowTiles ? static_cast<std::size_t>(rows) : 16;
  }
};

template <int kTile>
inline void tile_zero() {
  std::memset(emulated_tiles[kTile], 0, sizeof emulated_tiles[kTile]);
}
template <int kTile>
inline void tile_load(const void* from, std::size_t stride = 64) {
  for (std::size_t line = 0; line < emulated_lines[kTile]; ++line) {
    std::memcpy(emulated_tiles[kTile][line], static_cast<const std::byte*>(from) + line * stride, 64);
  }
}
template <int kTile>
inline void tile_load_once(const void* from) {
  tile_load<kTile>(from);
}
template <int kTile>
inline void tile_store(void* to) {
  std::memcpy(to, emulated_tiles[kTile], emulated_lines[kTile] * 64);
}
template <int kSum, int kRows, int kWeights>
[[gnu::noinline]] void tile_multiply() {
  const auto low = [](std::uint32_t pair) { return std::bit_cast<float>(pair << 16); };
  const auto high = [](std::uint32_t pair) { return std::bit_cast<float>(pair & 0xFFFF0000U); };
  for (std::size_t m = 0; m < emulated_lines[kSum]; ++m) {
    float even[16]{}, odd[16]{};
    for (int k = 0; k < 16; ++k) {
      const std::uint32_t x = emulated_tiles[kRows][m][k];
      for (int n = 0; n < 16; ++n) {
        const std::uint32_t w = emulated_tiles[kWeights][k][n];
        even[n] = __builtin_fmaf(low(x), low(w), even[n]);
        odd[n] = __builtin_fmaf(high(x), high(w), odd[n]);
      }
    }
    for (int n = 0; n < 16; ++n) {
      std::uint32_t& sum = emulated_tiles[kSum][m][n];
      sum = std::bit_cast<std::uint32_t>(std::bit_cast<float>(sum) + (even[n] + odd[n]));
    }
  }
}

#endif

}  // namespace sluice::cpu::SLUICE_ISA
