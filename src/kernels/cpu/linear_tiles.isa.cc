// Compiled for avx512vbmi and avx512_amx.
// Products of bf16 inputs on AMX tiles (InputForm::kTiles of kernels/linear.h), for some rows and more; in the target
// without AMX the tiles are emulated, for tests.
//
// 32 outputs at a time, or 64 of 16 rows at most: all of K stays in the tiles of sums, unless scales are f32. Up to
// kFewRows rows weights are decoded two slices ahead into a ring in L1, each once. More rows take a chunk of slices
// from L2, with the sums of all rows in tiles beside it; meanwhile the next chunk, of these outputs or the next ones,
// is decoded between the products.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "kernels/cpu/avx512vbmi/amx_tiles.h"
#include "kernels/cpu/avx512vbmi/tile_weights.h"
#include "kernels/cpu/kernel_list.h"
#include "kernels/cpu/tiles.h"
#include "kernels/linear_inputs.h"

namespace sluice::cpu::SLUICE_ISA {
namespace {

constexpr int kFewRows = 48, kMostRows = 256, kChunkSlices = 32;
constexpr int kRing = 4, kAhead = 2;  // slices
constexpr std::size_t kLineFloats = 16;

// kBlocks blocks of 16 rows times kGroups groups of outputs, in tiles: their sums, then rows, then weights.
template <int kBlocks, int kGroups>
struct TileSums {
  static constexpr int kSums = kBlocks * kGroups;
  // Two weights at a time where tiles are left for them and all rows; else rows and weights by turns.
  static constexpr bool kKeepsRows = kSums + kBlocks + 1 <= 8;
  static constexpr int kRowsAt = kSums, kWeightsAt = kKeepsRows ? kSums + kBlocks : kSums + 1;
  static constexpr int kWeightTiles = 8 - kWeightsAt;

  [[gnu::always_inline]] static void zero() {
    unroll<kSums>([]<int T>() __attribute__((always_inline)) { tile_zero<T>(); });
  }
  // One tile after the other, [block][group].
  [[gnu::always_inline]] static void load(const float* from) {
    unroll<kSums>([&]<int T>() __attribute__((always_inline)) { tile_load<T>(from + T * kLineFloats * kTileRows); });
  }
  [[gnu::always_inline]] static void store(float* to) {
    unroll<kSums>([&]<int T>() __attribute__((always_inline)) { tile_store<T>(to + T * kLineFloats * kTileRows); });
  }
  // One slice: x of the first block of rows, the others x_step bytes on; kGroups tiles of weights.
  [[gnu::always_inline]] static void multiply(const std::byte* x, std::size_t x_step, const std::byte* weights) {
    if constexpr (kKeepsRows) {
      unroll<kBlocks>([&]<int B>() __attribute__((always_inline)) {
        tile_load<kRowsAt + B>(x + static_cast<std::size_t>(B) * x_step);
      });
    }
    unroll<kGroups>([&]<int G>() __attribute__((always_inline)) {
      constexpr int kW = kWeightsAt + G % kWeightTiles;
      tile_load<kW>(weights + G * kTileBytes);
      unroll<kBlocks>([&]<int B>() __attribute__((always_inline)) {
        constexpr int kX = kKeepsRows ? kRowsAt + B : kRowsAt;
        if constexpr (!kKeepsRows) tile_load<kX>(x + static_cast<std::size_t>(B) * x_step);
        tile_multiply<B * kGroups + G, kX, kW>();
      });
    });
  }
};

// Rows of a job as tiles.
struct TileRows {
  const std::byte* tiles;
  int rows, slices;

  const std::byte* block(int b) const {
    return tiles + static_cast<std::size_t>(b) * static_cast<std::size_t>(slices) * kTileBytes;
  }
  std::size_t step() const { return static_cast<std::size_t>(slices) * kTileBytes; }
};

struct Scratch {
  alignas(64) std::byte weights[2][kChunkSlices * 2 * kTileBytes];
  alignas(64) std::byte ring[kRing * 4 * kTileBytes];
  alignas(64) float sums[kMostRows / kTileRows * 2 * kTileRows * kLineFloats];
  alignas(64) float of_block[8 * kTileRows * kLineFloats];
};

// Outputs that are taken at once.
struct TileUnit {
  TileUnit(const LinearLayout& layout, const std::byte* packed, int begin, int end, int rows)
      : tile(layout, packed, begin / (LinearIsa::kTileGroups * kGroupOutputs)),
        group(begin / kGroupOutputs % LinearIsa::kTileGroups) {
    const int left = std::min(tile.groups - group, (end - begin + kGroupOutputs - 1) / kGroupOutputs);
    groups = left >= 4 && rows <= kTileRows ? 4 : left >= 2 ? 2 : 1;
  }
  LinearTile tile;
  int group, groups;
};

template <class Weights>
class TileProduct {
  using Format = typename Weights::Format;
  static constexpr bool kScalesOfSums = Format::kScaleBytes == sizeof(float);

 public:
  TileProduct(const LinearJob& job, const TileRows& x, int row, Scratch& scratch)
      : job_(job), x_(x), row_(row), s_(scratch) {}

  // `next`: what is asked for after it, or null.
  void run(const TileUnit& unit, const TileUnit* next) {
    if (unit.groups == 4) {
      few<1, 4>(unit.tile, unit.group);
    } else if (unit.groups == 2) {
      of_groups<2>(unit, next);
    } else {
      of_groups<1>(unit, next);
    }
  }

 private:
  template <int kGroups>
  void of_groups(const TileUnit& unit, const TileUnit* next) {
    const int blocks = row_blocks_of(x_.rows);
    if (blocks == 1) {
      few<1, kGroups>(unit.tile, unit.group);
    } else if (blocks == 2) {
      few<2, kGroups>(unit.tile, unit.group);
    } else if (blocks * kTileRows <= kFewRows) {
      few<3, kGroups>(unit.tile, unit.group);
    } else {
      many<kGroups>(unit, next != nullptr && next->groups == kGroups ? next : nullptr, blocks);
    }
  }

  // f32 scales of a block's groups meet its sums, [block of rows][group] tiles at of_block.
  template <int kGroups>
  void add_block(const LinearTile& tile, int block, int group, int row_blocks, bool first, float* sums) const {
    const auto* scales = reinterpret_cast<const float*>(tile.scales(block)) + group * kGroupOutputs;
    const float* from = s_.of_block;
    for (int b = 0; b < row_blocks; ++b) {
      for (int g = 0; g < kGroups; ++g) {
        const F32x16 scale = F32x16::load(scales + g * kGroupOutputs);
        for (int r = 0; r < kTileRows; ++r, from += kLineFloats, sums += kLineFloats) {
          fma(F32x16::load(from), scale, first ? F32x16::zero() : F32x16::load(sums)).store(sums);
        }
      }
    }
  }

  template <int kBlocks, int kGroups>
  void few(const LinearTile& tile, int group) {
    using Sums = TileSums<kBlocks, kGroups>;
    const TileDecoder<Weights, kGroups> decoder(tile, group);
    const auto slot = [&](int slice) { return s_.ring + static_cast<std::size_t>(slice % kRing) * 4 * kTileBytes; };
    for (int s = 0; s < std::min(kAhead, x_.slices); ++s) decoder.decode(s, slot(s));
    Sums::zero();
    const int block_slices = tile.block / kSliceInputs;
    for (int s = 0; s < x_.slices; ++s) {
      Sums::multiply(x_.tiles + static_cast<std::size_t>(s) * kTileBytes, x_.step(), slot(s));
      if (s + kAhead < x_.slices) decoder.decode(s + kAhead, slot(s + kAhead));
      if constexpr (kScalesOfSums) {
        if ((s + 1) % block_slices != 0 && s + 1 < x_.slices) continue;
        Sums::store(s_.of_block);
        Sums::zero();
        add_block<kGroups>(tile, s / block_slices, group, kBlocks, s < block_slices, s_.sums);
      }
    }
    if constexpr (!kScalesOfSums) Sums::store(s_.sums);
    store<kGroups>(tile, group, 0, kBlocks);
  }

  template <int kGroups>
  void many(const TileUnit& unit, const TileUnit* next, int row_blocks) {
    const TileDecoder<Weights, kGroups> decoder(unit.tile, unit.group);
    const TileDecoder<Weights, kGroups> after(next != nullptr ? next->tile : unit.tile,
                                              next != nullptr ? next->group : unit.group);
    const auto chunk_slices = [&](int first) { return std::clamp(x_.slices - first, 0, kChunkSlices); };
    if (!decoded_) Ahead<kGroups>(decoder, 0, chunk_slices(0), 1, s_.weights[buffer_]).finish();
    for (int first = 0; first < x_.slices; first += kChunkSlices, buffer_ ^= 1) {
      const bool last = first + kChunkSlices >= x_.slices;
      const int begin = last ? 0 : first + kChunkSlices, count = last && next == nullptr ? 0 : chunk_slices(begin);
      const int steps = (row_blocks + 1) / 2 * chunk_slices(first);
      Ahead<kGroups> ahead(last ? after : decoder, begin, count, steps, s_.weights[buffer_ ^ 1]);
      for (int b = 0; b < row_blocks; b += 2) {
        if (b + 1 < row_blocks) {
          chunk<2, kGroups>(unit.tile, unit.group, b, first, chunk_slices(first), ahead);
        } else {
          chunk<1, kGroups>(unit.tile, unit.group, b, first, chunk_slices(first), ahead);
        }
        if (last) store<kGroups>(unit.tile, unit.group, b, std::min(2, row_blocks - b));
      }
      ahead.finish();
    }
    decoded_ = next != nullptr;
  }

  // Slices that are decoded, one after the other, between `steps` products.
  template <int kGroups>
  class Ahead {
   public:
    Ahead(const TileDecoder<Weights, kGroups>& decoder, int first, int count, int steps, std::byte* to)
        : decoder_(decoder),
          next_(first),
          last_(first + count),
          every_(std::max(1, steps / std::max(1, count))),
          to_(to) {}
    [[gnu::always_inline]] void step() {
      if (++steps_ < every_ || next_ == last_) return;
      steps_ = 0;
      decode();
    }
    void finish() {
      while (next_ < last_) decode();
    }

   private:
    [[gnu::noinline]] void decode() {
      decoder_.decode(next_++, to_);
      to_ += kGroups * kTileBytes;
    }
    const TileDecoder<Weights, kGroups>& decoder_;
    int next_, last_, every_, steps_ = 0;
    std::byte* to_;
  };

  template <int kBlocks, int kGroups>
  [[gnu::noinline]] void chunk(const LinearTile& tile, int group, int b, int first, int count, Ahead<kGroups>& ahead) {
    using Sums = TileSums<kBlocks, kGroups>;
    float* sums = s_.sums + static_cast<std::size_t>(b) * kGroups * kTileRows * kLineFloats;
    const std::byte* x = x_.block(b) + static_cast<std::size_t>(first) * kTileBytes;
    const std::byte* weights = s_.weights[buffer_];
    const int block_slices = kScalesOfSums ? tile.block / kSliceInputs : count;
    if (kScalesOfSums || first == 0) {
      Sums::zero();
    } else {
      Sums::load(sums);
    }
    for (int s = 0; s < count; ++s, x += kTileBytes, weights += kGroups * kTileBytes) {
      Sums::multiply(x, x_.step(), weights);
      ahead.step();
      if constexpr (kScalesOfSums) {
        const int slice = first + s;
        if ((slice + 1) % block_slices != 0 && slice + 1 < x_.slices) continue;
        Sums::store(s_.of_block);
        Sums::zero();
        add_block<kGroups>(tile, slice / block_slices, group, kBlocks, slice < block_slices, sums);
      }
    }
    if constexpr (!kScalesOfSums) Sums::store(sums);
  }

  // Outputs of row blocks [first, first + row_blocks), all groups of a row side by side.
  template <int kGroups>
  void store(const LinearTile& tile, int group, int first, int row_blocks) const {
    const float* sums = s_.sums + static_cast<std::size_t>(first) * kGroups * kTileRows * kLineFloats;
    const int outputs = tile.outputs - group * kGroupOutputs;
    for (int b = first; b < first + row_blocks; ++b, sums += kGroups * kTileRows * kLineFloats) {
      const int rows = std::min(kTileRows, x_.rows - b * kTileRows);
      float* y = job_.y + (row_ + b * kTileRows) * job_.ldy + tile.first_output + group * kGroupOutputs;
      for (int r = 0; r < rows; ++r, y += job_.ldy) {
        for (int g = 0; g < kGroups; ++g) {
          const float* from = sums + static_cast<std::size_t>(g * kTileRows + r) * kLineFloats;
          store_outputs(y + g * kGroupOutputs, F32x16::load(from) + F32x16::zero(), outputs - g * kGroupOutputs);
        }
      }
    }
  }

  const LinearJob& job_;
  const TileRows& x_;
  const int row_;
  Scratch& s_;
  int buffer_ = 0;        // of the chunk at hand
  bool decoded_ = false;  // the first chunk of the next outputs is there
};

// Outputs [begin, end), multiples of 32 but for the last.
template <class Weights>
void run_tiles(const LinearJob& job, int rows, int begin, int end) {
  constexpr int kTileGroups = LinearIsa::kTileGroups;
  const LinearLayout layout(job.weight->view(), kTileGroups);
  const int in = layout.in, slices = slices_of(in), most = std::min(rows, kMostRows);
  const bool in_order = job.x_tiles != nullptr;
  const std::size_t x_bytes = in_order ? 0 : tile_input_bytes(most, in);
  auto* memory = reinterpret_cast<std::byte*>(thread_scratch((sizeof(Scratch) + x_bytes) / sizeof(float)));
  auto& scratch = *reinterpret_cast<Scratch*>(memory);
  std::byte* own = memory + sizeof(Scratch);
  const TileSession session;
  for (int row = 0; row < rows; row += kMostRows) {
    const int count = std::min(kMostRows, rows - row);
    if (!in_order) put_tile_rows(rows_from(job, row), 0, count, own);
    const TileRows x{in_order ? job.x_tiles + tile_line_at(row, 0, in) : own, count, slices};
    TileProduct<Weights> product(job, x, row, scratch);
    TileUnit unit(layout, job.weight->packed(), begin, end, count);
    for (int at = begin; at < end;) {
      at += unit.groups * kGroupOutputs;
      if (at >= end) {
        product.run(unit, nullptr);
        break;
      }
      const TileUnit next(layout, job.weight->packed(), at, end, count);
      product.run(unit, &next);
      unit = next;
    }
  }
}

}  // namespace

void linear_bf16_tiles(const LinearJob& job, int rows, int begin, int end) {
  run_tiles<TileBf16>(job, rows, begin, end);
}
void linear_fp8_tiles(const LinearJob& job, int rows, int begin, int end) {
  run_tiles<TileFp8>(job, rows, begin, end);
}
void linear_fp8_f32_scales_tiles(const LinearJob& job, int rows, int begin, int end) {
  run_tiles<TileFp8F32>(job, rows, begin, end);
}
void linear_mxfp4_tiles(const LinearJob& job, int rows, int begin, int end) {
  run_tiles<TileMxfp4>(job, rows, begin, end);
}

namespace {

#ifdef __AMX_TILE__
constexpr CpuFeatures kNeeds{CpuFeature::kAmxBf16};
#else
constexpr CpuFeatures kNeeds{CpuFeature::kEmulatedTiles};
#endif

// A product of a tile takes as long for one row as for sixteen; two rows decoded in registers already take longer.
#define SLUICE_TILES_KERNEL(name, kind)                                                         \
  SLUICE_LINEAR(name, set_of(kind), kTilesInputs, .rows_from = kTilesFromRows, .needs = kNeeds, \
                .block_multiple = kSliceInputs, .tiles = true)
constexpr LinearKernel kLinears[] = {
    SLUICE_TILES_KERNEL(linear_bf16_tiles, WeightKind::kBf16),
    SLUICE_TILES_KERNEL(linear_fp8_tiles, WeightKind::kFp8),
    SLUICE_TILES_KERNEL(linear_fp8_f32_scales_tiles, WeightKind::kFp8F32Scales),
    SLUICE_TILES_KERNEL(linear_mxfp4_tiles, WeightKind::kMxfp4),
};
#undef SLUICE_TILES_KERNEL

}  // namespace

SLUICE_KERNELS(linear_tiles, {}, kLinears);

}  // namespace sluice::cpu::SLUICE_ISA
