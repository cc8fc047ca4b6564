// Compiled for avx512vbmi and avx512_amx.
// Products of bf16 inputs on AMX tiles (InputForm::kTiles of kernels/ops/linear.h), for some rows and more; in the
// target without AMX the tiles are emulated, for tests.
//
// It computes 32 outputs at a time, or 64 of at most 16 rows: all of K stays in the tiles of sums, unless scales are
// f32. For up to kFewRows rows weights are decoded two slices ahead into a ring in L1, each once. With more rows it
// works on a chunk of slices, 32 KB of weights that stay in L1. The rows pass by from L2 (by TILELOADDT1, which does
// not keep them), and the sums of all rows lie in tiles in L2. Meanwhile the next chunk, of these outputs or the next
// ones, is decoded, a part of a slice at a time between products. Outputs of many rows go past the caches, 128 of a row
// at once: writing them costs the same time as reading as much from memory, and they are more than L2 holds.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/avx512vbmi/amx_tiles.h"
#include "kernels/cpu/avx512vbmi/tile_sums.h"
#include "kernels/cpu/avx512vbmi/tile_weights.h"
#include "kernels/cpu/kernel_list.h"
#include "kernels/cpu/linear/tiles.h"
#include "kernels/weights/linear_inputs.h"

namespace sluice::cpu::SLUICE_ISA {
namespace {

constexpr int kFewRows = 48, kMostRows = 256, kChunkSlices = 16;
constexpr int kRing = 4, kAhead = 2;  // slices in the ring; slices decoded ahead
constexpr int kBatch = 4;             // units of 32 outputs whose results are written together

// The rows of a job as tiles.
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
  alignas(64) float sums[kBatch][kMostRows / kTileRows * 2 * kTileFloats];
  alignas(64) float of_block[2][8 * kTileFloats];
};

// Outputs that are computed at once.
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
  using Decoder = TileDecoder<Weights>;
  static constexpr bool kScalesOfSums = Format::kScaleBytes == sizeof(float);

 public:
  TileProduct(const LinearJob& job, const TileRows& x, int row, Scratch& scratch)
      : job_(job), x_(x), row_(row), s_(scratch) {}

  // `next`: the unit whose weights are asked for after it, or null.
  void run(const TileUnit& unit, const TileUnit* next) {
    if (x_.rows > kFewRows) {
      if (next != nullptr && next->groups != unit.groups) next = nullptr;
      unit.groups == 2 ? many<2>(unit, next) : many<1>(unit, next);
    } else if (unit.groups == 4) {
      few<1, 4>(unit);
    } else if (unit.groups == 2) {
      few_rows<2>(unit);
    } else {
      few_rows<1>(unit);
    }
  }

 private:
  template <int kGroups>
  void few_rows(const TileUnit& unit) {
    const int blocks = row_blocks_of(x_.rows);
    blocks == 1 ? few<1, kGroups>(unit) : blocks == 2 ? few<2, kGroups>(unit) : few<3, kGroups>(unit);
  }

  // Ends a block, whose sums are in the tiles and whose scales are f32, from slice `slice` back; they reach `sums`
  // later.
  template <int kBlocks, int kGroups>
  [[gnu::always_inline]] void end_block(const LinearTile& tile, int group, int slice, float* sums) {
    const int block_slices = tile.block / kSliceInputs, block = slice / block_slices;
    scaled_.finish();
    float* from = s_.of_block[block_buffer_ ^= 1];
    TileSums<kBlocks, kGroups>::store(from);
    TileSums<kBlocks, kGroups>::zero();
    scaled_.begin(from, sums, reinterpret_cast<const float*>(tile.scales(block)) + group * kGroupOutputs,
                  kBlocks * kGroups, kGroups, block == 0);
  }

  template <int kBlocks, int kGroups>
  void few(const TileUnit& unit) {
    using Sums = TileSums<kBlocks, kGroups>;
    Decoder decoder(unit.tile, unit.group, kGroups);
    const auto slot = [&](int slice) { return s_.ring + static_cast<std::size_t>(slice % kRing) * 4 * kTileBytes; };
    for (int s = 0; s < std::min(kAhead, x_.slices); ++s) decoder.decode(s, slot(s));
    Sums::zero();
    const int block_slices = unit.tile.block / kSliceInputs;
    for (int s = 0; s < x_.slices; ++s) {
      Sums::multiply(x_.tiles + static_cast<std::size_t>(s) * kTileBytes, x_.step(), slot(s));
      if (s + kAhead < x_.slices) decoder.decode(s + kAhead, slot(s + kAhead));
      if constexpr (kScalesOfSums) {
        scaled_.step();
        if ((s + 1) % block_slices == 0 || s + 1 == x_.slices)
          end_block<kBlocks, kGroups>(unit.tile, unit.group, s, s_.sums[0]);
      }
    }
    kScalesOfSums ? scaled_.finish() : Sums::store(s_.sums[0]);
    groups_[0] = kGroups;
    store<false>(output(unit, 0), unit.tile.outputs - unit.group * kGroupOutputs, 1, kBlocks);
  }

  template <int kGroups>
  void many(const TileUnit& unit, const TileUnit* next) {
    const int row_blocks = row_blocks_of(x_.rows);
    Decoder decoder(unit.tile, unit.group, kGroups);
    Decoder after(next != nullptr ? next->tile : unit.tile, next != nullptr ? next->group : unit.group, kGroups);
    const auto chunk_slices = [&](int first) { return std::clamp(x_.slices - first, 0, kChunkSlices); };
    if (!decoded_) Ahead(decoder, 0, chunk_slices(0), 1, s_.weights[buffer_]).finish();
    for (int first = 0; first < x_.slices; first += kChunkSlices, buffer_ ^= 1) {
      const bool last = first + kChunkSlices >= x_.slices;
      const int count = chunk_slices(first);
      const int begin = last ? 0 : first + count, after_count = last && next == nullptr ? 0 : chunk_slices(begin);
      Ahead ahead(last ? after : decoder, begin, after_count, (row_blocks + 1) / 2 * count, s_.weights[buffer_ ^ 1]);
      for (int b = 0; b < row_blocks; b += 2) {
        float* sums = s_.sums[waiting_] + static_cast<std::size_t>(b * kGroups) * kTileFloats;
        if (b + 1 < row_blocks) {
          chunk<2, kGroups>(unit.tile, unit.group, b, first, count, sums, ahead);
        } else {
          chunk<1, kGroups>(unit.tile, unit.group, b, first, count, sums, ahead);
        }
      }
      scaled_.finish();
      ahead.finish();
    }
    decoded_ = next != nullptr;
    if (waiting_ == 0) waiting_outputs_ = output(unit, 0), outputs_left_ = 0;
    outputs_left_ += std::min(kGroups * kGroupOutputs, unit.tile.outputs - unit.group * kGroupOutputs);
    groups_[waiting_++] = kGroups;
    if (waiting_ < kBatch && next != nullptr) return;
    store<true>(waiting_outputs_, outputs_left_, waiting_, row_blocks);
    waiting_ = 0;
  }

  // Slices that are decoded, a part after the other, between `steps` products.
  class Ahead {
   public:
    Ahead(Decoder& decoder, int first, int count, int steps, std::byte* to)
        : decoder_(decoder), slice_(first), left_(count * kDecodeParts), parts_(left_), steps_(steps), to_(to) {}
    [[gnu::always_inline]] void step() {
      for (credit_ += parts_; credit_ >= steps_ && left_ > 0; credit_ -= steps_) decode();
    }
    void finish() {
      while (left_ > 0) decode();
    }

   private:
    [[gnu::always_inline]] void decode() {
      decoder_.decode_part(slice_, part_, to_);
      --left_;
      if (++part_ < kDecodeParts) return;
      part_ = 0;
      ++slice_;
      to_ += static_cast<std::size_t>(decoder_.groups()) * kTileBytes;
    }
    Decoder& decoder_;
    int slice_, left_;
    const int parts_, steps_;
    int credit_ = 0, part_ = 0;
    std::byte* to_;
  };

  template <int kBlocks, int kGroups>
  [[gnu::noinline]] void chunk(const LinearTile& tile, int group, int b, int first, int count, float* sums,
                               Ahead& ahead) {
    using Sums = TileSums<kBlocks, kGroups>;
    const std::byte* x = x_.block(b) + static_cast<std::size_t>(first) * kTileBytes;
    const std::byte* weights = s_.weights[buffer_];
    const int block_slices = kScalesOfSums ? tile.block / kSliceInputs : count;
    constexpr int kAsked = (kBlocks * kGroups * kTileRows + kChunkSlices - 1) / kChunkSlices;  // lines a slice
    const float* next = sums + kBlocks * kGroups * kTileFloats;  // the sums of the next rows
    int s = 0;
    const auto between = [&]() __attribute__((always_inline)) {
      x += kTileBytes, weights += kGroups * kTileBytes;
      ahead.step();
      if constexpr (!kScalesOfSums) {
        for (int i = 0; i < kAsked; ++i, next += kLineFloats) __builtin_prefetch(next, 1, 3);
      }
      if constexpr (kScalesOfSums) {
        scaled_.step();
        const int slice = first + s;
        if ((slice + 1) % block_slices == 0 || slice + 1 == x_.slices)
          end_block<kBlocks, kGroups>(tile, group, slice, sums);
      }
    };
    if (kScalesOfSums || first == 0) {
      Sums::zero();
    } else {
      Sums::template multiply_first<true>(sums, x, x_.step(), weights);
      between();
      s = 1;
    }
    for (; s < count; ++s) {
      Sums::template multiply<true>(x, x_.step(), weights);
      between();
    }
    if constexpr (!kScalesOfSums) Sums::store(sums);
  }

  float* output(const TileUnit& unit, int b) const {
    return job_.y + (row_ + b * kTileRows) * job_.ldy + unit.tile.first_output + unit.group * kGroupOutputs;
  }

  // Stores `outputs` outputs of `units` units from y on, all of a row contiguous; kPast: past the caches, if they are
  // whole lines. Their sums are tiles [two blocks of rows][block][group].
  template <bool kPast>
  void store(float* y, int outputs, int units, int row_blocks) const {
    for (int b = 0; b < row_blocks; ++b) {
      const int rows = std::min(kTileRows, x_.rows - b * kTileRows);
      for (int r = 0; r < rows; ++r, y += job_.ldy) {
        float* to = y;
        for (int u = 0; u < units; ++u) {
          const float* sums = s_.sums[u] + static_cast<std::size_t>(b * groups_[u]) * kTileFloats +
                              static_cast<std::size_t>(r) * kLineFloats;
          for (int g = 0; g < groups_[u]; ++g, to += kGroupOutputs, sums += kTileFloats) {
            const F32x16 sum = F32x16::load(sums) + F32x16::zero();
            const int left = outputs - static_cast<int>(to - y);
            if (kPast && left >= kGroupOutputs && reinterpret_cast<std::uintptr_t>(to) % kTileLine == 0) {
              store_past_caches(to, sum);
            } else {
              store_outputs(to, sum, left);
            }
          }
        }
      }
    }
    if constexpr (kPast) ordered_stores();
  }

  const LinearJob& job_;
  const TileRows& x_;
  const int row_;
  Scratch& s_;
  ScaledSums scaled_;
  int block_buffer_ = 0;
  int buffer_ = 0;        // the buffer of the chunk that is multiplied
  bool decoded_ = false;  // true if the first chunk of the next outputs is decoded already
  int waiting_ = 0, groups_[kBatch] = {}, outputs_left_ = 0;  // units whose sums are not yet written to y
  float* waiting_outputs_ = nullptr;
};

// Computes outputs [begin, end), multiples of 32 but for the last.
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
    const auto unit_at = [&](int at) { return TileUnit(layout, job.weight->packed(), at, end, count); };
    TileUnit unit = unit_at(begin);
    for (int at = begin + unit.groups * kGroupOutputs; at < end;) {
      const TileUnit next = unit_at(at);
      product.run(unit, &next);
      at += next.groups * kGroupOutputs;
      unit = next;
    }
    product.run(unit, nullptr);
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

// A product of a tile takes as long for one row as for sixteen; two rows decoded in registers already take longer.
#define SLUICE_TILES_KERNEL(name, of)                                                     \
  SLUICE_LINEAR(name, of, kTilesInputs, .rows_from = kTilesFromRows, .needs = kTilesNeed, \
                .block_multiple = kSliceInputs, .tiles = true)
constexpr LinearKernel kLinears[] = {
    SLUICE_TILES_KERNEL(linear_bf16_tiles, weights_of(WeightFormat::kBf16)),
    SLUICE_TILES_KERNEL(linear_fp8_tiles, weights_of(WeightFormat::kFp8)),
    SLUICE_TILES_KERNEL(linear_fp8_f32_scales_tiles, f32_scaled(WeightFormat::kFp8)),
    SLUICE_TILES_KERNEL(linear_mxfp4_tiles, weights_of(WeightFormat::kMxfp4)),
};
#undef SLUICE_TILES_KERNEL

}  // namespace

SLUICE_KERNELS(linear_tiles, {}, kLinears);

}  // namespace sluice::cpu::SLUICE_ISA
