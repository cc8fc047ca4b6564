// Tiles for many rows (see linear_tile.inc.h): 128 inputs x Isa::kPanelGroups groups of weights are decoded to f32, a
// panel of 16 KB (AVX-512) or 8 KB (AVX2), and multiplied with all rows, Isa::kPanelRows at a time, while it stays in
// L1. The same 128 inputs of the rows are copied side by side first, once for all tiles, so that a register tile reads
// them through one pointer and rows of any stride do not fall on the same cache sets.
#pragma once

#include <algorithm>
#include <cstddef>

#include "kernels/cpu/linear_tile.inc.h"

namespace sluice::cpu {

inline constexpr int kPanelInputs = 128;

// The blocks [first, last), decoded; each takes `block_inputs` rows of the panel.
struct PanelBlocks {
  int first, last, block_inputs;
};

// `panel`: row q of a block is the q-th input of its chain (input q ^ 1), kGroups groups side by side.
// `panel_scales`: one such row for each block.
template <class Format, class V, int kGroups>
[[gnu::noinline]] void decode_panel(const LinearTile& tile, const PanelBlocks& blocks, int group, float* panel,
                                    float* panel_scales) {
  constexpr int kStride = kGroups * kGroupOutputs;
  const Format format;
  const auto steps = static_cast<std::size_t>(blocks.block_inputs / Format::kInputs);
  const std::size_t step_bytes = static_cast<std::size_t>(tile.groups) * Format::kLineBytes;
  for (int block = blocks.first; block < blocks.last; ++block) {
    const std::byte* lines = tile.data + static_cast<std::size_t>(block) * steps * step_bytes +
                             static_cast<std::size_t>(group) * Format::kLineBytes;
    const std::byte* scales =
        tile.scales + static_cast<std::size_t>((block * tile.groups + group) * kGroupOutputs) * Format::kScaleBytes;
    float* to = panel + (block - blocks.first) * blocks.block_inputs * kStride;
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g, panel_scales += kGroupOutputs) {
      Format::Scale::load(scales + static_cast<std::size_t>(g * kGroupOutputs) * Format::kScaleBytes)
          .store(panel_scales);
    }
    const int count = std::min(tile.block, tile.in - block * tile.block);
    for (int k = 0; k < count; k += Format::kInputs, lines += step_bytes, to += Format::kInputs * kStride) {
#pragma GCC unroll 4
      for (int g = 0; g < kGroups; ++g) {
        const auto line = format.load(lines + static_cast<std::size_t>(g) * Format::kLineBytes,
                                      scales + static_cast<std::size_t>(g * kGroupOutputs) * Format::kScaleBytes);
        unroll<Format::kInputs / 2>([&]<int P>() __attribute__((always_inline)) {
          V even, odd;
          format.template pair<P>(line, even, odd);
          odd.store(to + 2 * P * kStride + g * kGroupOutputs);
          even.store(to + (2 * P + 1) * kStride + g * kGroupOutputs);
        });
      }
    }
  }
}

// kRows rows x kGroups groups, all blocks of the panel. x: the rows' inputs of those blocks, with stride kPanelInputs.
// sums: y of these rows and groups after the blocks before, side by side; after the last block y goes to `out` instead.
template <class V, int kRows, int kGroups>
[[gnu::noinline]] void multiply_panel(const LinearTile& tile, const PanelBlocks& blocks, int group, const float* panel,
                                      const float* scales, const float* x, float* sums, float* out,
                                      std::ptrdiff_t ldy) {
  constexpr int kStride = kGroups * kGroupOutputs;
  for (int block = blocks.first; block < blocks.last; ++block, x += tile.block) {
    V acc[kRows][kGroups];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int g = 0; g < kGroups; ++g) acc[r][g] = V::zero();
    }
    const auto one_input = [&](const float* weights, const float* input) __attribute__((always_inline)) {
      V w[kGroups];
#pragma GCC unroll 4
      for (int g = 0; g < kGroups; ++g) w[g] = V::load(weights + g * kGroupOutputs);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const V value = V::broadcast(input[r * kPanelInputs]);
#pragma GCC unroll 4
        for (int g = 0; g < kGroups; ++g) acc[r][g] = fma(value, w[g], acc[r][g]);
      }
    };
    const int count = std::min(tile.block, tile.in - block * tile.block);
    const float* w = panel + (block - blocks.first) * blocks.block_inputs * kStride;
    const float* input = x;
    for (int pairs = count / 2; pairs > 0; --pairs, w += 2 * kStride, input += 2) {
      one_input(w, input + 1);
      one_input(w + kStride, input);
    }
    if (count % 2 != 0) one_input(w + kStride, input);
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g, scales += kGroupOutputs) {
      const V scale = V::load(scales);
      const int count_of_group = tile.outputs - (group + g) * kGroupOutputs;
      float* sum = sums + g * kGroupOutputs;
      float* y = out + tile.first_output + (group + g) * kGroupOutputs;
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r, sum += kStride, y += ldy) {
        const V total = fma(acc[r][g], scale, block == 0 ? V::zero() : V::load(sum));
        if (block + 1 < tile.blocks) {
          total.store(sum);
        } else {
          store_outputs(y, total, count_of_group);
        }
      }
    }
  }
}

// More than Isa::kPanelRows rows; blocks of at most kPanelInputs inputs.
template <class Isa, class Format>
class LinearPanels {
  using V = typename Isa::Vec;
  static constexpr int kMostRows = 96;
  // Enough that copying the inputs costs little, few enough that the sums stay in L2.
  static constexpr int kTilesAtOnce = 256 / (Isa::kTileGroups * kGroupOutputs);

 public:
  static void run(const LinearLayout& layout, const LinearJob& job, int rows, int first_tile, int last_tile) {
    const int parts = (rows + kMostRows - 1) / kMostRows;
    for (int part = 0, row = 0; part < parts; ++part) {
      const int count = (rows - row + parts - part - 1) / (parts - part);
      LinearPanels(layout, job, row, count).run(first_tile, last_tile);
      row += count;
    }
  }

 private:
  LinearPanels(const LinearLayout& layout, const LinearJob& job, int row, int rows)
      : layout_(layout), job_(job), row_(row), rows_(rows) {}

  void run(int first_tile, int last_tile) {
    const int block_inputs = (layout_.block + Format::kInputs - 1) / Format::kInputs * Format::kInputs;
    const int at_once = kPanelInputs / block_inputs;
    for (; first_tile < last_tile; first_tile += kTilesAtOnce) {
      for (int first = 0; first < layout_.blocks; first += at_once) {
        const PanelBlocks blocks{first, std::min(layout_.blocks, first + at_once), block_inputs};
        copy_inputs(first * layout_.block, std::min(layout_.in, blocks.last * layout_.block));
        for (int index = first_tile; index < std::min(last_tile, first_tile + kTilesAtOnce); ++index) {
          const LinearTile tile(layout_, job_.weight->packed(), index);
          for (int group = 0; group < tile.groups; group += Isa::kPanelGroups) {
            const int column = ((index - first_tile) * Isa::kTileGroups + group) * kGroupOutputs;
            with_groups<Isa::kPanelGroups>(tile, blocks, group, sums_ + column * kMostRows);
          }
        }
      }
    }
  }

  void copy_inputs(int begin, int end) {
    for (int r = 0; r < rows_; ++r) {
      std::copy(job_.x_row(row_ + r) + begin, job_.x_row(row_ + r) + end, x_ + r * kPanelInputs);
    }
  }

  template <int kGroups>
  void with_groups(const LinearTile& tile, const PanelBlocks& blocks, int group, float* sums) {
    if constexpr (kGroups > 1) {
      if (tile.groups - group < kGroups) return with_groups<kGroups - 1>(tile, blocks, group, sums);
    }
    decode_panel<Format, V, kGroups>(tile, blocks, group, weights_, scales_);
    // Parts as even as they come: more than kPanelRows rows never leave a part of less than half of that.
    const int parts = (rows_ + Isa::kPanelRows - 1) / Isa::kPanelRows;
    for (int part = 0, row = 0; part < parts; ++part) {
      const int count = (rows_ - row + parts - part - 1) / (parts - part);
      with_rows<kGroups, Isa::kPanelRows>(tile, blocks, group, row, count, sums + row * kGroups * kGroupOutputs);
      row += count;
    }
  }

  template <int kGroups, int kRows>
  void with_rows(const LinearTile& tile, const PanelBlocks& blocks, int group, int row, int count, float* sums) {
    if constexpr (kRows > Isa::kPanelRows / 2) {
      if (count < kRows) return with_rows<kGroups, kRows - 1>(tile, blocks, group, row, count, sums);
    }
    multiply_panel<V, kRows, kGroups>(tile, blocks, group, weights_, scales_, x_ + row * kPanelInputs, sums,
                                      job_.y + (row_ + row) * job_.ldy, job_.ldy);
  }

  const LinearLayout& layout_;
  const LinearJob& job_;
  int row_, rows_;
  // All written before they are read.
  alignas(64) float sums_[kMostRows * kTilesAtOnce * Isa::kTileGroups * kGroupOutputs];
  alignas(64) float x_[kMostRows * kPanelInputs];
  alignas(64) float weights_[kPanelInputs * Isa::kPanelGroups * kGroupOutputs];
  alignas(64) float scales_[kPanelInputs / Format::kInputs * Isa::kPanelGroups * kGroupOutputs];
};

}  // namespace sluice::cpu
