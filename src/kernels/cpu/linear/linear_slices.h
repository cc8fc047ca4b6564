// Products in the order of AMX tiles (InputForm::kTiles of kernels/ops/linear.h) by multiply-adds, over sixteen lanes
// V: a slice is 32 inputs, whose even and odd ones are a chain each.
//
// Scales of e8m0 multiply the weights. If no input, sum or product can leave the normal numbers for it, they multiply
// the sums of a slice instead, which is exact and gives the same bits. That holds for inputs and scales of 2^-50 to
// 2^50, and for inputs of zero.
//
// Few rows decode weights in registers (SlicesDirect). Many rows decode 128 inputs of a tile into a panel of f32 in L1
// and multiply it with all rows (SlicesPanels). The even inputs of a slice come first, then its odd ones, so that a
// register tile has as many sums as in kernels/cpu/linear/linear_panel.h. Formats are those of
// kernels/cpu/linear/linear_tile.h, without scales in pair().
// Used by linear_slices.isa.cc and linear_slices_fp8.isa.cc.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/linear/linear_formats.h"
#include "kernels/cpu/linear/linear_run.h"
#include "kernels/cpu/linear/tiles.h"
#include "kernels/weights/linear_inputs.h"
#include "kernels/weights/tile_inputs.h"

namespace sluice::cpu::SLUICE_ISA {

// Scales go into the weights, or, if they are f32, into the sums of their blocks.
template <class Format>
inline constexpr bool kScalesOfSums = Format::kScaleBytes == sizeof(float);
template <class Format>
inline constexpr bool kScalesOfWeights = Format::kScaleBytes > 0 && !kScalesOfSums<Format>;

inline constexpr int kUsualExponents = 50;

// True if all of `count` inputs are 0 or of magnitude 2^-50 to 2^50.
inline bool inputs_are_usual(const float* x, int count) {
  constexpr auto kLeast = static_cast<std::uint32_t>(127 - kUsualExponents) << 23;
  constexpr auto kSpan = static_cast<std::uint32_t>(2 * kUsualExponents) << 23;
  std::uint32_t unusual = 0;
  for (int i = 0; i < count; ++i) {
    const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(x[i]) & 0x7FFFFFFFU;
    unusual |= static_cast<std::uint32_t>(magnitude != 0) & static_cast<std::uint32_t>(magnitude - kLeast > kSpan);
  }
  return unusual == 0;
}

// Multiplies rows [row, row + kRows) by kGroups groups of a tile from `group` on, or by two whole tiles that have
// kGroups together. job's inputs are f32.
template <class Isa, class Format, bool kAhead, int kRows, int kGroups>
class SlicesDirect {
  using V = typename Isa::Vec;
  static constexpr int kTile = std::min(kGroups, Isa::kTileGroups);
  static constexpr int kPairs = Format::kInputs / 2;
  static constexpr std::size_t kGroupScales = kGroupOutputs * Format::kScaleBytes;

 public:
  [[gnu::noinline]] static void run(const LinearTile& tile, const LinearJob& job, int row, int group) {
    SlicesDirect kernel(tile, job, row, group);
    for (int block = 0; block < tile.blocks; ++block) kernel.block(block);
    for (int r = 0; r < kRows; ++r) {
      float* y = job.y + (row + r) * job.ldy + tile.first_output + group * kGroupOutputs;
      for (int g = 0; g < kGroups; ++g) {
        const int left = kGroups > kTile ? kGroupOutputs : tile.outputs - (group + g) * kGroupOutputs;
        store_outputs(y + g * kGroupOutputs, kernel.y_[r][g] + V::zero(), left);
      }
    }
  }

 private:
  using Sums = V[kRows][kGroups];

  SlicesDirect(const LinearTile& tile, const LinearJob& job, int row, int group) : tile_(tile), group_(group) {
    for (int r = 0; r < kRows; ++r) x_[r] = job.x_row(row + r);
    for (int r = 0; kScalesOfWeights<Format> && r < kRows; ++r) usual_ = usual_ && inputs_are_usual(x_[r], tile.in);
    clear(y_);
  }

  [[gnu::always_inline]] static void clear(Sums& sums) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int g = 0; g < kGroups; ++g) sums[r][g] = V::zero();
    }
  }
  // Returns where group g's `size` bytes lie among those of its tile, from the first tile's on.
  [[gnu::always_inline]] std::size_t at(int g, std::size_t size) const {
    return static_cast<std::size_t>(g / kTile) * tile_.tile_bytes + static_cast<std::size_t>(g % kTile) * size;
  }

  [[gnu::always_inline]] void block(int index) {
    const int count = std::min(tile_.block, tile_.in - index * tile_.block);
    const std::byte* lines = tile_.lines(index) + static_cast<std::size_t>(group_) * Format::kLineBytes;
    const std::byte* scales = tile_.scales(index) + static_cast<std::size_t>(group_) * kGroupScales;
    V scale[kGroups];
#pragma GCC unroll 8
    for (int g = 0; g < kGroups; ++g) scale[g] = Format::Scale::load(scales + at(g, kGroupScales));
    const std::size_t step_bytes = static_cast<std::size_t>(tile_.groups) * Format::kLineBytes;
    if constexpr (kScalesOfWeights<Format>) {
      if (usual_ && scales_are_usual(scale)) [[likely]] {
        return slices<true>(index, count, lines, step_bytes, scale, y_);
      }
      return unusual(index, count, lines, step_bytes, scale);
    }
    Sums of_block;
    if constexpr (kScalesOfSums<Format>) clear(of_block);
    if constexpr (kScalesOfSums<Format>) {
      slices<false>(index, count, lines, step_bytes, scale, of_block);
    } else {
      slices<false>(index, count, lines, step_bytes, scale, y_);
    }
    if constexpr (kScalesOfSums<Format>) {
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
        for (int g = 0; g < kGroups; ++g) y_[r][g] = fma(of_block[r][g], scale[g], y_[r][g]);
      }
    }
  }

  // The general way: scales multiply the weights.
  [[gnu::noinline]] void unusual(int index, int count, const std::byte* lines, std::size_t step_bytes,
                                 const V (&scale)[kGroups]) {
    slices<false>(index, count, lines, step_bytes, scale, y_);
  }
  [[gnu::always_inline]] static bool scales_are_usual(const V (&scale)[kGroups]) {
    using I = typename V::Int;
    const I least = I::broadcast((127 - kUsualExponents) << 23), most = I::broadcast((127 + kUsualExponents) << 23);
    I low = as_bits(scale[0]), high = low;
#pragma GCC unroll 8
    for (int g = 1; g < kGroups; ++g) low = min_of(low, as_bits(scale[g])), high = max_of(high, as_bits(scale[g]));
    return bits(greater(least, low) | greater(high, most)) == 0;
  }

  // Adds the slices of a block to `sums`. kOfSums: scales multiply the sums of slices.
  template <bool kOfSums>
  [[gnu::always_inline]] void slices(int index, int count, const std::byte* lines, std::size_t step_bytes,
                                     const V (&scale)[kGroups], Sums& sums) const {
    constexpr std::size_t kSliceLines = kSliceInputs / Format::kInputs;
    for (int k = 0; k < count; k += kSliceInputs, lines += kSliceLines * step_bytes) {
      const float* x[kRows];
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) x[r] = x_[r] + index * tile_.block + k;
      slice<kOfSums>(lines, step_bytes, scale, x, std::min(kSliceInputs, count - k), sums);
    }
  }

  template <bool kOfSums>
  [[gnu::always_inline]] void slice(const std::byte* lines, std::size_t step_bytes, const V (&scale)[kGroups],
                                    const float* const (&x)[kRows], int count, Sums& sums) const {
    Sums even, odd;
    clear(even);
    clear(odd);
    if (count == kSliceInputs) [[likely]] {
      for (int k = 0; k < kSliceInputs; k += Format::kInputs, lines += step_bytes)
        line<!kOfSums>(lines, scale, x, k, even, odd);
    } else {
      float padded[kRows][kSliceInputs];
      const float* rows[kRows];
      for (int r = 0; r < kRows; ++r) {
        for (int k = 0; k < kSliceInputs; ++k) padded[r][k] = k < count ? x[r][k] : 0.0F;
        rows[r] = padded[r];
      }
      for (int k = 0; k < count; k += Format::kInputs, lines += step_bytes)
        line<!kOfSums>(lines, scale, rows, k, even, odd);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int g = 0; g < kGroups; ++g) {
        const V sum = even[r][g] + odd[r][g];
        sums[r][g] = kOfSums ? fma(sum, scale[g], sums[r][g]) : sums[r][g] + sum;
      }
    }
  }

  template <bool kMultiplied>
  [[gnu::always_inline]] void line(const std::byte* lines, const V (&scale)[kGroups], const float* const (&x)[kRows],
                                   int k, Sums& even, Sums& odd) const {
    const Format format;
#pragma GCC unroll 8
    for (int g = 0; g < kGroups; ++g) {
      const std::byte* from = lines + at(g, Format::kLineBytes);
      if constexpr (kAhead) prefetch_lines<Isa::kTileGroups / kTile>(from);
      const auto weights = format.load(from, nullptr);
      unroll<kPairs>([&]<int P>() __attribute__((always_inline)) {
        V w_even, w_odd;
        format.template pair<P>(weights, w_even, w_odd);
        if constexpr (kMultiplied && kScalesOfWeights<Format>) {
          w_even = w_even * scale[g];
          w_odd = w_odd * scale[g];
        }
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          const float* pair = x[r] + k + 2 * P;
          even[r][g] = fma(V::broadcast(pair[0]), w_even, even[r][g]);
          odd[r][g] = fma(V::broadcast(pair[1]), w_odd, odd[r][g]);
        }
      });
    }
  }

  const LinearTile& tile_;
  const int group_;
  const float* x_[kRows];
  bool usual_ = true;
  Sums y_;
};

// The rows of a panel at once, and its inputs. Blocks are a multiple of 32 inputs, 128 at most.
template <class Isa, class Format>
class SlicesPanels {
  using V = typename Isa::Vec;
  static constexpr int kMostGroups = Isa::kPanelGroups;

 public:
  static void run(const LinearJob& job, int rows, int begin, int end) {
    const LinearLayout layout(job.weight->view(), Isa::kTileGroups);
    SlicesPanels panels(layout, job, rows);
    const TileRange tiles(Isa::kTileGroups, begin, end);
    for (int index = tiles.first; index < tiles.last; ++index) {
      const LinearTile tile(layout, job.weight->packed(), index);
      int group = 0;
      for (; group + kMostGroups <= tile.groups; group += kMostGroups)
        panels.template outputs<kMostGroups>(tile, group);
      for (; group < tile.groups; ++group) panels.template outputs<1>(tile, group);
    }
  }

 private:
  SlicesPanels(const LinearLayout& layout, const LinearJob& job, int rows)
      : job_(job), rows_(rows), blocks_(kPanelInputs / layout.block) {
    const int panels = (layout.blocks + blocks_ - 1) / blocks_;
    constexpr std::size_t kStride = kMostGroups * kGroupOutputs;
    const auto all = static_cast<std::size_t>(rows);
    const std::size_t x_floats = static_cast<std::size_t>(panels) * all * kPanelInputs;
    x_ = thread_scratch(x_floats + (all + 2 * kPanelInputs) * kStride);
    weights_ = x_ + x_floats;
    scales_ = weights_ + kPanelInputs * kStride;
    sums_ = scales_ + kPanelInputs * kStride;
    for (int r = 0; r < rows; ++r) {
      const auto* from = reinterpret_cast<const std::uint16_t*>(job.x_row(r));
      for (int p = 0; p < panels; ++p) copy_inputs(layout, from, p, x_ + (std::ptrdiff_t{p} * rows + r) * kPanelInputs);
    }
  }

  // Copies the blocks of panel p of a row: for each slice the even inputs, then the odd ones.
  void copy_inputs(const LinearLayout& layout, const std::uint16_t* x, int p, float* to) const {
    const int begin = p * blocks_ * layout.block, end = std::min(layout.in, begin + blocks_ * layout.block);
    for (int k = begin; k < end; k += kSliceInputs, to += kSliceInputs) {
      for (int i = 0; i < kSliceInputs; ++i) {
        const auto bits = k + i < end ? static_cast<std::uint32_t>(x[k + i]) << 16 : 0U;
        to[i % 2 * (kSliceInputs / 2) + i / 2] = std::bit_cast<float>(bits);
      }
    }
  }

  template <int kGroups>
  void outputs(const LinearTile& tile, int group) {
    std::fill_n(sums_, static_cast<std::size_t>(rows_) * kGroups * kGroupOutputs, 0.0F);
    for (int block = 0; block < tile.blocks; block += blocks_) {
      const int last = std::min(tile.blocks, block + blocks_);
      decode<kGroups>(tile, group, block, last);
      const float* x = x_ + std::ptrdiff_t{block / blocks_} * rows_ * kPanelInputs;
      const int parts = (rows_ + Isa::kPanelRows - 1) / Isa::kPanelRows;
      for (int part = 0, row = 0; part < parts; ++part) {
        const int count = (rows_ - row + parts - part - 1) / (parts - part);
        with_rows<kGroups, Isa::kPanelRows>(tile, block, last, count, x + std::ptrdiff_t{row} * kPanelInputs,
                                            sums_ + std::ptrdiff_t{row} * kGroups * kGroupOutputs);
        row += count;
      }
    }
    const float* sum = sums_;
    for (int r = 0; r < rows_; ++r) {
      float* y = job_.y + r * job_.ldy + tile.first_output + group * kGroupOutputs;
      for (int g = 0; g < kGroups; ++g, sum += kGroupOutputs) {
        store_outputs(y + g * kGroupOutputs, V::load(sum) + V::zero(), tile.outputs - (group + g) * kGroupOutputs);
      }
    }
  }

  template <int kGroups>
  [[gnu::noinline]] void decode(const LinearTile& tile, int group, int first, int last) {
    constexpr int kStride = kGroups * kGroupOutputs, kPairs = Format::kInputs / 2;
    const Format format;
    const std::size_t step_bytes = static_cast<std::size_t>(tile.groups) * Format::kLineBytes;
    float* to = weights_;
    for (int block = first; block < last; ++block) {
      const std::byte* lines = tile.lines(block) + static_cast<std::size_t>(group) * Format::kLineBytes;
      const std::byte* scales =
          tile.scales(block) + static_cast<std::size_t>(group * kGroupOutputs) * Format::kScaleBytes;
      const int count = std::min(tile.block, tile.in - block * tile.block);
      if (count % kSliceInputs != 0)
        std::fill_n(to + count / kSliceInputs * kSliceInputs * kStride, kSliceInputs * kStride, 0.0F);
      for (int k = 0; k < count; k += Format::kInputs, lines += step_bytes) {
        float* slice = to + k / kSliceInputs * kSliceInputs * kStride + k % kSliceInputs / 2 * kStride;
#pragma GCC unroll 4
        for (int g = 0; g < kGroups; ++g) {
          const V scale =
              Format::Scale::load(scales + static_cast<std::size_t>(g * kGroupOutputs) * Format::kScaleBytes);
          const auto weights = format.load(lines + static_cast<std::size_t>(g) * Format::kLineBytes, nullptr);
          unroll<kPairs>([&]<int P>() __attribute__((always_inline)) {
            V even, odd;
            format.template pair<P>(weights, even, odd);
            if constexpr (kScalesOfWeights<Format>) {
              even = even * scale;
              odd = odd * scale;
            }
            even.store(slice + P * kStride + g * kGroupOutputs);
            odd.store(slice + (P + kSliceInputs / 2) * kStride + g * kGroupOutputs);
          });
        }
      }
      for (int g = 0; kScalesOfSums<Format> && g < kGroups; ++g) {
        Format::Scale::load(scales + static_cast<std::size_t>(g * kGroupOutputs) * Format::kScaleBytes)
            .store(scales_ + ((block - first) * kGroups + g) * kGroupOutputs);
      }
      to += slices_of(count) * kSliceInputs * kStride;
    }
  }

  template <int kGroups, int kRows>
  void with_rows(const LinearTile& tile, int first, int last, int count, const float* x, float* sums) {
    if constexpr (kRows > 1) {
      if (count < kRows) return with_rows<kGroups, kRows - 1>(tile, first, last, count, x, sums);
    }
    multiply<kGroups, kRows>(tile, first, last, x, sums);
  }

  template <int kGroups, int kRows>
  [[gnu::noinline]] void multiply(const LinearTile& tile, int first, int last, const float* x, float* sums) {
    constexpr int kStride = kGroups * kGroupOutputs, kHalf = kSliceInputs / 2;
    const float* w = weights_;
    for (int block = first; block < last; ++block) {
      const int slices = slices_of(std::min(tile.block, tile.in - block * tile.block));
      V of_block[kRows][kGroups], even[kRows][kGroups], odd[kRows][kGroups];
      if constexpr (kScalesOfSums<Format>) clear(of_block);
      for (int s = 0; s < slices; ++s, x += kSliceInputs) {
        w = chain(w, x, even);
        w = chain(w, x + kHalf, odd);
#pragma GCC unroll 6
        for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
          for (int g = 0; g < kGroups; ++g) {
            const V sum = even[r][g] + odd[r][g];
            float* y = sums + r * kStride + g * kGroupOutputs;
            if constexpr (kScalesOfSums<Format>) {
              of_block[r][g] = of_block[r][g] + sum;
            } else {
              (V::load(y) + sum).store(y);
            }
          }
        }
      }
      for (int r = 0; kScalesOfSums<Format> && r < kRows; ++r) {
        for (int g = 0; g < kGroups; ++g) {
          const V scale = V::load(scales_ + ((block - first) * kGroups + g) * kGroupOutputs);
          float* y = sums + r * kStride + g * kGroupOutputs;
          fma(of_block[r][g], scale, V::load(y)).store(y);
        }
      }
    }
  }

  template <int kRows, int kGroups>
  [[gnu::always_inline]] static void clear(V (&sums)[kRows][kGroups]) {
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int g = 0; g < kGroups; ++g) sums[r][g] = V::zero();
    }
  }

  // Multiplies half of a slice (its even or its odd inputs); returns the address of the next half's weights.
  template <int kRows, int kGroups>
  [[gnu::always_inline]] static const float* chain(const float* w, const float* x, V (&result)[kRows][kGroups]) {
    V acc[kRows][kGroups];
    clear(acc);
    for (int k = 0; k < kSliceInputs / 2; ++k, w += kGroups * kGroupOutputs, ++x) {
      V weights[kGroups];
#pragma GCC unroll 4
      for (int g = 0; g < kGroups; ++g) weights[g] = V::load(w + g * kGroupOutputs);
#pragma GCC unroll 6
      for (int r = 0; r < kRows; ++r) {
        const V value = V::broadcast(x[r * kPanelInputs]);
#pragma GCC unroll 4
        for (int g = 0; g < kGroups; ++g) acc[r][g] = fma(value, weights[g], acc[r][g]);
      }
    }
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int g = 0; g < kGroups; ++g) result[r][g] = acc[r][g];
    }
    return w;
  }

  const LinearJob& job_;
  const int rows_, blocks_;  // rows of the product; blocks of a panel
  float *x_, *weights_, *scales_, *sums_;
};

// Multiplies groups [group, last) of a tile: two rows and half a tile at once, so that the sums of two chains stay in
// registers. The last one of an odd number of rows goes by whole tiles.
template <class Isa, class Format>
void run_slices_of_tile(const LinearTile& tile, const LinearJob& wide, int rows, int group, int last) {
  constexpr int kGroups = Isa::kTileGroups, kHalf = kGroups / 2;
  const int paired = rows / 2 * 2;
  int g = group;
  for (; g + kHalf <= last; g += kHalf) {
    for (int r = 0; r < paired; r += 2) SlicesDirect<Isa, Format, false, 2, kHalf>::run(tile, wide, r, g);
  }
  for (; g < last; ++g) {
    for (int r = 0; r < paired; ++r) SlicesDirect<Isa, Format, false, 1, 1>::run(tile, wide, r, g);
  }
  if (paired == rows) return;
  for (; group + kGroups <= last; group += kGroups)
    SlicesDirect<Isa, Format, false, 1, kGroups>::run(tile, wide, paired, group);
  for (; group + kHalf <= last; group += kHalf)
    SlicesDirect<Isa, Format, false, 1, kHalf>::run(tile, wide, paired, group);
  for (; group < last; ++group) SlicesDirect<Isa, Format, false, 1, 1>::run(tile, wide, paired, group);
}

template <class Isa, class Format>
void run_slices(const LinearJob& job, int rows, int begin, int end) {
  const LinearJob wide = widened_job<Isa>(job, rows);
  const LinearLayout layout(job.weight->view(), Isa::kTileGroups);
  const auto part = [&](int index, int group, int last) {
    run_slices_of_tile<Isa, Format>(LinearTile(layout, job.weight->packed(), index), wide, rows, group, last);
  };
  const auto whole = [&](int index, int last) {
    for (; index < last; ++index) part(index, 0, layout.groups_in(index));
  };
  OutputRange{Isa::kTileGroups, layout.out, begin, end}.walk(part, whole);
}

// Multiplies one row whose weights are asked for ahead, two tiles at once.
template <class Isa, class Format>
void run_slices_ahead(const LinearJob& job, int rows, int begin, int end) {
  const LinearJob wide = widened_job<Isa>(job, rows);
  const LinearLayout layout(job.weight->view(), Isa::kTileGroups);
  constexpr int kGroups = Isa::kTileGroups, kHalf = kGroups / 2;
  const auto tile = [&](int index) { return LinearTile(layout, job.weight->packed(), index); };
  const auto part = [&](int index, int group, int last) {
    for (; group + kHalf <= last; group += kHalf) {
      SlicesDirect<Isa, Format, true, 1, kHalf>::run(tile(index), wide, 0, group);
    }
    run_slices_of_tile<Isa, Format>(tile(index), wide, 1, group, last);
  };
  const auto whole = [&](int index, int last) {
    const int full = std::min(last, layout.out / (kGroups * kGroupOutputs));
    for (; index + 2 <= full; index += 2) SlicesDirect<Isa, Format, true, 1, 2 * kGroups>::run(tile(index), wide, 0, 0);
    if (index < full) SlicesDirect<Isa, Format, true, 1, kGroups>::run(tile(index++), wide, 0, 0);
    if (index < last) part(index, 0, layout.groups_in(index));
  };
  OutputRange{kGroups, layout.out, begin, end}.walk(part, whole);
}

}  // namespace sluice::cpu::SLUICE_ISA

// Defines the functions `name`, for few rows of a Format, and name_panels, for many; and name_ahead, for one row.
#define SLUICE_SLICES_FORMAT(name, Format)                                 \
  void name(const LinearJob& job, int rows, int begin, int end) {          \
    run_slices<LinearIsa, Format>(job, rows, begin, end);                  \
  }                                                                        \
  void name##_ahead(const LinearJob& job, int rows, int begin, int end) {  \
    run_slices_ahead<LinearIsa, Format>(job, rows, begin, end);            \
  }                                                                        \
  void name##_panels(const LinearJob& job, int rows, int begin, int end) { \
    SlicesPanels<LinearIsa, Format>::run(job, rows, begin, end);           \
  }
// Lists these functions as kernels for the weights `of`.
#define SLUICE_SLICES_KERNELS(name, of)                                                                         \
  SLUICE_LINEAR(name##_ahead, of, kTilesInputs, .rows_from = LinearIsa::kTileGroups == 4 ? 1 : 0, .rows_to = 1, \
                .needs = CpuFeatures{CpuFeature::kReadsAhead}, .any_group = true),                              \
      SLUICE_LINEAR(name##_panels, of, kTilesInputs, .rows_from = 6, .block_inputs = kPanelInputs,              \
                    .block_multiple = kSliceInputs),                                                            \
      SLUICE_LINEAR(name, of, kTilesInputs, .any_group = true)
