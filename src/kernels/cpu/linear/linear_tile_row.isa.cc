// Compiled for avx512vbmi and avx512_amx.
// Products of FP8 weights and one row of bf16 inputs on AMX tiles of one row (InputForm::kTiles of
// kernels/ops/linear.h); in the target without AMX the tiles are emulated, for tests.
//
// A product of a tile takes as long for one row as for more. But of the units that threads of a core share it needs
// only those that decode the weights. That is less than half of the work of multiplying them by vectors: on all threads
// a row takes a sixth less time. (Weights of bf16 and MXFP4 gained nothing.) There are 64 outputs at a time. Their
// weights are decoded a few slices ahead, at the end those of the next outputs after these, into a ring in L1.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <new>

#include "kernels/cpu/avx512vbmi/amx_tiles.h"
#include "kernels/cpu/avx512vbmi/tile_weights.h"
#include "kernels/cpu/kernel_list.h"
#include "kernels/weights/linear_inputs.h"

namespace sluice::cpu::SLUICE_ISA {
namespace {

constexpr int kRowGroups = LinearIsa::kTileGroups;         // groups computed at once, each with a tile of sums
constexpr int kRowRing = 4, kRowAhead = 2;                 // slices in the ring; slices decoded ahead
constexpr std::size_t kRowSlot = kRowGroups * kTileBytes;  // the bytes of a slot of the ring
constexpr int kInputTile = kRowGroups, kWeightTile = kInputTile + 1, kWeightTiles = 8 - kWeightTile;
static_assert(kInputTile < kNarrowTiles && kWeightTile >= kNarrowTiles);

// Outputs of a tile that are computed at once: all of it unless the range begins or ends within.
template <class Weights>
struct RowUnit {
  RowUnit(const LinearLayout& layout, const std::byte* packed, int begin, int end)
      : tile(layout, packed, begin / (kRowGroups * kGroupOutputs)),
        group(begin / kGroupOutputs % kRowGroups),
        groups(std::min(tile.groups - group, (end - begin + kGroupOutputs - 1) / kGroupOutputs)),
        decoder(tile, group, groups) {}
  RowUnit(const RowUnit&) = delete;
  LinearTile tile;
  int group, groups;
  TileDecoder<Weights> decoder;
};

template <class Weights>
class RowProduct {
  using Format = typename Weights::Format;
  using Unit = RowUnit<Weights>;
  static constexpr bool kScalesOfSums = Format::kScaleBytes == sizeof(float);

 public:
  explicit RowProduct(const LinearJob& job)
      : job_(job), slices_(slices_of(job.weight->in())), ahead_(std::min(kRowAhead, slices_)) {
    const int in = job.weight->in(), whole = in / kSliceInputs * kSliceInputs;
    inputs_ = reinterpret_cast<const std::byte*>(job.x_row(0));
    std::memcpy(last_, inputs_ + static_cast<std::size_t>(whole) * 2, static_cast<std::size_t>(in - whole) * 2);
    last_slice_ = in == whole ? slices_ : slices_ - 1;
  }

  // `next`: the unit whose weights are asked for after it, or null.
  void run(Unit& unit, Unit* next) {
    if (!decoded_) {
      for (int s = 0; s < ahead_; ++s) decode(unit, s, slot_ + s);
    }
    unroll<kRowGroups>([]<int T>() __attribute__((always_inline)) { tile_zero<T>(); });
    const int block_slices = unit.tile.block / kSliceInputs;
    for (int s = 0; s < slices_; ++s, ++slot_) {
      multiply(s < last_slice_ ? inputs_ + static_cast<std::size_t>(s) * kTileLine : last_, slot(slot_), unit.groups);
      const int later = s + ahead_;
      if (later < slices_) {
        decode(unit, later, slot_ + ahead_);
      } else if (next != nullptr) {
        decode(*next, later - slices_, slot_ + ahead_);
      }
      if constexpr (kScalesOfSums) {
        if ((s + 1) % block_slices == 0 || s + 1 == slices_) end_block(unit, s / block_slices);
      }
    }
    if constexpr (!kScalesOfSums) store_sums(sums_);
    decoded_ = next != nullptr;
    float* y = job_.y + unit.tile.first_output + unit.group * kGroupOutputs;
    for (int g = 0; g < unit.groups; ++g) {
      store_outputs(y + g * kGroupOutputs, F32x16::load(sums_[g]) + F32x16::zero(),
                    unit.tile.outputs - (unit.group + g) * kGroupOutputs);
    }
  }

 private:
  std::byte* slot(int index) { return ring_ + static_cast<std::size_t>(index % kRowRing) * kRowSlot; }
  void decode(Unit& unit, int slice, int to) { unit.decoder.decode(slice, slot(to)); }

  // With fewer groups the other tiles hold old weights; they are multiplied, too, but their sums are not read.
  [[gnu::always_inline]] static void multiply(const std::byte* x, const std::byte* weights, int groups) {
    tile_load<kInputTile>(x);
    unroll<kRowGroups>([&]<int G>() __attribute__((always_inline)) {
      if (G >= groups) return;
      constexpr int kW = kWeightTile + G % kWeightTiles;
      tile_load<kW>(weights + G * kTileBytes);
      tile_multiply<G, kInputTile, kW>();
    });
  }
  [[gnu::always_inline]] static void store_sums(float (&to)[kRowGroups][kGroupOutputs]) {
    unroll<kRowGroups>([&]<int T>() __attribute__((always_inline)) { tile_store<T>(to[T]); });
  }
  // Ends block `block`, whose sums are in the tiles and whose scales are f32.
  void end_block(const Unit& unit, int block) {
    store_sums(of_block_);
    unroll<kRowGroups>([]<int T>() __attribute__((always_inline)) { tile_zero<T>(); });
    const auto* scales = reinterpret_cast<const float*>(unit.tile.scales(block)) + unit.group * kGroupOutputs;
    for (int g = 0; g < unit.groups; ++g) {
      const F32x16 before = block == 0 ? F32x16::zero() : F32x16::load(sums_[g]);
      fma(F32x16::load(of_block_[g]), F32x16::load(scales + g * kGroupOutputs), before).store(sums_[g]);
    }
  }

  alignas(64) std::byte ring_[kRowRing * kRowSlot];
  alignas(64) float sums_[kRowGroups][kGroupOutputs];
  alignas(64) float of_block_[kRowGroups][kGroupOutputs];
  alignas(64) std::byte last_[kTileLine]{};  // the inputs of a slice that is not whole, then zeros
  const LinearJob& job_;
  const int slices_, ahead_;
  const std::byte* inputs_;
  int last_slice_;        // from this slice on, inputs are read from last_
  int slot_ = 0;          // the slot of the slice that is multiplied next
  bool decoded_ = false;  // true if the first slices of these outputs are decoded already
};

// Computes outputs [begin, end), begin a multiple of 16.
template <class Weights>
void run_tile_row(const LinearJob& job, int begin, int end) {
  using Unit = RowUnit<Weights>;
  const LinearLayout layout(job.weight->view(), LinearIsa::kTileGroups);
  const TileSession session(1);
  RowProduct<Weights> product(job);
  alignas(Unit) std::byte memory[2][sizeof(Unit)];
  int turn = 0;
  auto* unit = new (memory[0]) Unit(layout, job.weight->packed(), begin, end);
  while (true) {
    begin += unit->groups * kGroupOutputs;
    if (begin >= end) break;
    turn ^= 1;
    auto* next = new (memory[turn]) Unit(layout, job.weight->packed(), begin, end);
    product.run(*unit, next);
    unit = next;
  }
  product.run(*unit, nullptr);
}

}  // namespace

void linear_fp8_tile_row(const LinearJob& job, int, int begin, int end) {
  run_tile_row<TileFp8>(job, begin, end);
}
void linear_fp8_f32_scales_tile_row(const LinearJob& job, int, int begin, int end) {
  run_tile_row<TileFp8F32>(job, begin, end);
}
namespace {

#define SLUICE_TILE_ROW_KERNEL(name, of)                                                                   \
  SLUICE_LINEAR(name, of, kTilesInputs, .rows_to = 1, .needs = kTilesNeed, .block_multiple = kSliceInputs, \
                .any_group = true)
constexpr LinearKernel kLinears[] = {
    SLUICE_TILE_ROW_KERNEL(linear_fp8_tile_row, weights_of(WeightFormat::kFp8)),
    SLUICE_TILE_ROW_KERNEL(linear_fp8_f32_scales_tile_row, f32_scaled(WeightFormat::kFp8)),
};
#undef SLUICE_TILE_ROW_KERNEL

}  // namespace

SLUICE_KERNELS(linear_tile_row, {}, kLinears);

}  // namespace sluice::cpu::SLUICE_ISA
