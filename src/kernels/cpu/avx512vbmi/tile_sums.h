// Sums of products in AMX tiles, for some blocks of 16 rows and groups of 16 outputs at once.
// Used by kernels/cpu/linear/linear_tiles.isa.cc.
#pragma once

#include <cstddef>

#include "kernels/cpu/avx512/vec.h"
#include "kernels/cpu/avx512vbmi/amx_tiles.h"
#include "kernels/cpu/linear/linear_layout.h"
#include "kernels/cpu/linear/linear_tile.h"
#include "kernels/weights/tile_inputs.h"

namespace sluice::cpu::SLUICE_ISA {

// Stores a line of outputs past the caches; call ordered_stores() before another thread may read it.
SLUICE_VEC void store_past_caches(float* to, F32x16 v) {
  _mm512_stream_ps(to, v.v);
}
[[gnu::always_inline]] inline void ordered_stores() {
  _mm_sfence();
}

inline constexpr std::size_t kLineFloats = 16, kTileFloats = kTileRows * kLineFloats;

// kBlocks blocks of 16 rows times kGroups groups of outputs, in tiles: their sums, then rows, then weights. In memory
// sums are one tile after the other, [block][group]. kOnce: rows are loaded from L2 without keeping them in L1, which
// the weights need.
template <int kBlocks, int kGroups>
class TileSums {
  static constexpr int kSums = kBlocks * kGroups;
  // True if the tiles hold all rows and two weights at once; else rows and weights are loaded in turn.
  static constexpr bool kKeepsRows = kSums + kBlocks + 1 <= 8;
  static constexpr int kRowsAt = kSums, kWeightsAt = kKeepsRows ? kSums + kBlocks : kSums + 1;
  static constexpr int kWeightTiles = 8 - kWeightsAt;

 public:
  [[gnu::always_inline]] static void zero() {
    unroll<kSums>([]<int T>() __attribute__((always_inline)) { tile_zero<T>(); });
  }
  [[gnu::always_inline]] static void store(float* to) {
    unroll<kSums>([&]<int T>() __attribute__((always_inline)) { tile_store<T>(to + T * kTileFloats); });
  }

  // Adds one slice: x has the first block of rows, and each further block begins x_step bytes later; there are kGroups
  // tiles of weights.
  template <bool kOnce = false>
  [[gnu::always_inline]] static void multiply(const std::byte* x, std::size_t x_step, const std::byte* weights) {
    if constexpr (kKeepsRows) {
      unroll<kBlocks>([&]<int B>() __attribute__((always_inline)) { load_rows<kRowsAt + B, kOnce>(x, x_step, B); });
    }
    unroll<kGroups>([&]<int G>() __attribute__((always_inline)) {
      constexpr int kW = kWeightsAt + G % kWeightTiles;
      tile_load<kW>(weights + G * kTileBytes);
      unroll<kBlocks>([&]<int B>() __attribute__((always_inline)) {
        constexpr int kX = kKeepsRows ? kRowsAt + B : kRowsAt;
        if constexpr (!kKeepsRows) load_rows<kX, kOnce>(x, x_step, B);
        tile_multiply<B * kGroups + G, kX, kW>();
      });
    });
  }
  // Adds the first slice to `sums`: each tile of them is loaded just before its product, so that none waits for all.
  template <bool kOnce>
  [[gnu::always_inline]] static void multiply_first(const float* sums, const std::byte* x, std::size_t x_step,
                                                    const std::byte* weights) {
    static_assert(kKeepsRows);
    unroll<kGroups>([&]<int G>() __attribute__((always_inline)) {
      constexpr int kW = kWeightsAt + G % kWeightTiles;
      unroll<kBlocks>([&]<int B>() __attribute__((always_inline)) {
        constexpr int kT = B * kGroups + G;
        tile_load<kT>(sums + kT * kTileFloats);
        if constexpr (G == 0) load_rows<kRowsAt + B, kOnce>(x, x_step, B);
        if constexpr (B == 0) tile_load<kW>(weights + G * kTileBytes);
        tile_multiply<kT, kRowsAt + B, kW>();
      });
    });
  }

 private:
  template <int kTile, bool kOnce>
  [[gnu::always_inline]] static void load_rows(const std::byte* x, std::size_t x_step, int block) {
    x += static_cast<std::size_t>(block) * x_step;
    kOnce ? tile_load_once<kTile>(x) : tile_load<kTile>(x);
  }
};

// Sums of a block of inputs, which f32 scales add to the sums of all: y = fma(sum, scale, y), one tile of them after
// the other between the products of the next block.
class ScaledSums {
 public:
  void begin(const float* from, float* sums, const float* scales, int tiles, int groups, bool first) {
    from_ = from, sums_ = sums, scales_ = scales, left_ = tiles, groups_ = groups, first_ = first, group_ = 0;
  }
  [[gnu::always_inline]] void step() {
    if (left_ > 0) tile();
  }
  void finish() {
    while (left_ > 0) tile();
  }

 private:
  [[gnu::noinline]] void tile() {
    const F32x16 scale = F32x16::load(scales_ + group_ * kGroupOutputs);
    for (int r = 0; r < kTileRows; ++r, from_ += kLineFloats, sums_ += kLineFloats) {
      fma(F32x16::load(from_), scale, first_ ? F32x16::zero() : F32x16::load(sums_)).store(sums_);
    }
    if (++group_ == groups_) group_ = 0;
    --left_;
  }
  const float *from_ = nullptr, *scales_ = nullptr;
  float* sums_ = nullptr;
  int left_ = 0, groups_ = 1, group_ = 0;
  bool first_ = false;
};

}  // namespace sluice::cpu::SLUICE_ISA
