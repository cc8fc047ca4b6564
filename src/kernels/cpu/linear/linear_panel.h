// Tiles for many rows (see linear_tile.h). A panel is 128 inputs x Isa::kPanelGroups groups of weights, decoded: with
// f32 32 KB (AVX-512) or 8 KB (AVX2). It is multiplied with all rows, Isa::kPanelRows at a time, while it stays in L1.
// The same 128 inputs of the rows are first copied next to each other, once for all tiles. So a register tile reads
// them through one pointer, and rows of any stride do not fall on the same cache sets.
//
// An Arithmetic says what a pair of inputs is in a panel and how it is multiplied:
//   Cell, kPairCells          a cell, and the cells of a pair, of an output or of a row
//   inputs(x), copy_inputs(x, begin, count, to)   a row as cells
//   store_pair<P, kStride>(format, line, to), add_pair(w, x, acc)
// and in a direct tile:
//   kNothing, kRowsKept       the value against padding weights, and the rows whose inputs of a step stay in registers
//   decode_pair<P>(format, line), add(x, pair, acc)
// Used by kernels/cpu/avx512_bf16/bf16_linear.cc, linear_codes.h and linear_run.h.
#pragma once

#include <algorithm>
#include <cstddef>

#include "kernels/cpu/linear/linear_tile.h"

namespace sluice::cpu::SLUICE_ISA {

inline constexpr int kPanelInputs = 128;

// The arithmetic of f32 multiply-adds.
template <class V>
struct FmaArithmetic {
  using Cell = float;
  static constexpr int kPairCells = 2, kRowsKept = 2;
  static constexpr float kNothing = -0.0F;

  struct Pair {
    V even, odd;
  };
  template <int P, class Format, class Line>
  [[gnu::always_inline]] static Pair decode_pair(const Format& format, const Line& line) {
    Pair pair;
    format.template pair<P>(line, pair.even, pair.odd);
    return pair;
  }
  [[gnu::always_inline]] static V add(const float* x, const Pair& pair, V acc) {
    return fma(V::broadcast(x[0]), pair.even, fma(V::broadcast(x[1]), pair.odd, acc));
  }

  // With an odd count the last pair has no odd input (linear_tile.h).
  static const float* inputs(const float* x) { return x; }
  static void copy_inputs(const float* x, int begin, int count, float* to) {
    std::copy_n(x + begin, count, to);
    if (count % 2 != 0) to[count] = -0.0F;
  }
  // Stores pair P of a line: the odd inputs' row, then the even ones'.
  template <int P, int kStride, class Format, class Line>
  [[gnu::always_inline]] static void store_pair(const Format& format, const Line& line, float* to) {
    V even, odd;
    format.template pair<P>(line, even, odd);
    odd.store(to);
    even.store(to + kStride);
  }
  template <int kXStride, int kRows, int kGroups>
  [[gnu::always_inline]] static void add_pair(const float* w, const float* x, V (&acc)[kRows][kGroups]) {
    add_input<kXStride>(w, x + 1, acc);
    add_input<kXStride>(w + kGroups * kGroupOutputs, x, acc);
  }

 private:
  template <int kXStride, int kRows, int kGroups>
  [[gnu::always_inline]] static void add_input(const float* weights, const float* x, V (&acc)[kRows][kGroups]) {
    V w[kGroups];
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g) w[g] = V::load(weights + g * kGroupOutputs);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const V value = V::broadcast(x[r * kXStride]);
#pragma GCC unroll 4
      for (int g = 0; g < kGroups; ++g) acc[r][g] = fma(value, w[g], acc[r][g]);
    }
  }
};

// The blocks of a panel, [first, last). Each has `block_inputs` inputs in it, an even number.
struct PanelBlocks {
  int first, last, block_inputs;
};

// Decodes blocks into `panel`: [pair][group], kGroups groups; and their scales into `panel_scales`: [block][group].
template <class Format, class V, class Arithmetic, int kGroups>
[[gnu::noinline]] void decode_panel(const LinearTile& tile, const PanelBlocks& blocks, int group,
                                    typename Arithmetic::Cell* panel, float* panel_scales) {
  constexpr int kStride = kGroups * kGroupOutputs;
  constexpr int kPairs = Format::kInputs / 2;
  const Format format;
  const std::size_t step_bytes = static_cast<std::size_t>(tile.groups) * Format::kLineBytes;
  for (int block = blocks.first; block < blocks.last; ++block) {
    const std::byte* lines = tile.lines(block) + static_cast<std::size_t>(group) * Format::kLineBytes;
    const std::byte* scales =
        tile.scales(block) + static_cast<std::size_t>(group * kGroupOutputs) * Format::kScaleBytes;
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g, panel_scales += kGroupOutputs) {
      Format::Scale::load(scales + static_cast<std::size_t>(g * kGroupOutputs) * Format::kScaleBytes)
          .store(panel_scales);
    }
    auto* to = panel + (block - blocks.first) * blocks.block_inputs / 2 * Arithmetic::kPairCells * kStride;
    const int count = std::min(tile.block, tile.in - block * tile.block);
    for (int k = 0; k < count; k += Format::kInputs, lines += step_bytes, scales += kLineScales<Format>,
             to += kPairs * Arithmetic::kPairCells * kStride) {
#pragma GCC unroll 4
      for (int g = 0; g < kGroups; ++g) {
        const auto line = format.load(lines + static_cast<std::size_t>(g) * Format::kLineBytes,
                                      scales + static_cast<std::size_t>(g * kGroupOutputs) * Format::kScaleBytes);
        unroll<kPairs>([&]<int P>() __attribute__((always_inline)) {
          Arithmetic::template store_pair<P, kStride>(format, line,
                                                      to + P * Arithmetic::kPairCells * kStride + g * kGroupOutputs);
        });
      }
    }
  }
}

// to[r * ld + ...] = fma(acc, scale, sum), for kRows rows and kGroups groups; sums are contiguous and 0 at first.
template <bool kFirst, class V, int kRows, int kGroups>
[[gnu::always_inline]] inline void add_panel_sums(const V (&acc)[kRows][kGroups], const float* scales,
                                                  const float* sums, std::ptrdiff_t ld, float* to) {
  V scale[kGroups];
#pragma GCC unroll 4
  for (int g = 0; g < kGroups; ++g) scale[g] = V::load(scales + g * kGroupOutputs);
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r, to += ld, sums += kGroups * kGroupOutputs) {
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g) {
      fma(acc[r][g], scale[g], kFirst ? V::zero() : V::load(sums + g * kGroupOutputs)).store(to + g * kGroupOutputs);
    }
  }
}

// Stores the first `outputs` of each row of sums.
template <class V, class Arithmetic, int kRows, int kGroups>
[[gnu::noinline]] void store_ragged_sums(const float* sums, int outputs, std::ptrdiff_t ldy, float* y) {
  for (int r = 0; r < kRows; ++r, y += ldy) {
    for (int g = 0; g < kGroups; ++g, sums += kGroupOutputs) {
      store_outputs(y + g * kGroupOutputs, V::load(sums), outputs - g * kGroupOutputs);
    }
  }
}

// Multiplies kRows rows x kGroups groups, all blocks of the panel. x: the rows' inputs of those blocks, with stride
// kXStride. sums: y of these rows and groups after the blocks before, contiguous; after the last block y goes to `out`
// instead.
template <class V, class Arithmetic, int kRows, int kGroups>
[[gnu::noinline]] void multiply_panel(const LinearTile& tile, const PanelBlocks& blocks, int group,
                                      const typename Arithmetic::Cell* panel, const float* scales,
                                      const typename Arithmetic::Cell* x, float* sums, float* out, std::ptrdiff_t ldy) {
  constexpr int kStride = kGroups * kGroupOutputs;
  constexpr int kXStride = kPanelInputs / 2 * Arithmetic::kPairCells;
  const int block_cells = blocks.block_inputs / 2 * Arithmetic::kPairCells;
  for (int block = blocks.first; block < blocks.last; ++block, x += block_cells, panel += block_cells * kStride) {
    V acc[kRows][kGroups];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int g = 0; g < kGroups; ++g) acc[r][g] = V::zero();
    }
    const auto* w = panel;
    const auto* input = x;
    const int count = std::min(tile.block, tile.in - block * tile.block);
    for (int pairs = (count + 1) / 2; pairs > 0; --pairs) {
      Arithmetic::template add_pair<kXStride>(w, input, acc);
      w += Arithmetic::kPairCells * kStride;
      input += Arithmetic::kPairCells;
    }
    float* y = out + tile.first_output + group * kGroupOutputs;
    if (block + 1 < tile.blocks) {
      block == 0 ? add_panel_sums<true>(acc, scales, sums, kStride, sums)
                 : add_panel_sums<false>(acc, scales, sums, kStride, sums);
    } else if (tile.outputs - group * kGroupOutputs >= kStride) {
      block == 0 ? add_panel_sums<true>(acc, scales, sums, ldy, y) : add_panel_sums<false>(acc, scales, sums, ldy, y);
    } else {
      block == 0 ? add_panel_sums<true>(acc, scales, sums, kStride, sums)
                 : add_panel_sums<false>(acc, scales, sums, kStride, sums);
      store_ragged_sums<V, Arithmetic, kRows, kGroups>(sums, tile.outputs - group * kGroupOutputs, ldy, y);
    }
    scales += kStride;
  }
}

// A product of more than Isa::kPanelRows rows, in blocks of at most kPanelInputs inputs.
template <class Isa, class Format, class Arithmetic>
class LinearPanels {
  using V = typename Isa::Vec;
  using Cell = typename Arithmetic::Cell;
  static constexpr int kCells = kPanelInputs / 2 * Arithmetic::kPairCells;
  static constexpr int kMostRows = 96;
  // Enough tiles that copying the inputs costs little, few enough that the sums stay in L2.
  static constexpr int kTilesAtOnce = 512 / (Isa::kTileGroups * kGroupOutputs);

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
        copy_inputs(blocks);
        const int end = std::min(last_tile, first_tile + kTilesAtOnce);
        for (int index = first_tile; index < end; ++index) {
          const LinearTile tile(layout_, job_.weight->packed(), index);
          next_ = index + 1 < end ? next_panel(index + 1, blocks.first) : next_panel(first_tile, blocks.last);
          for (int group = 0; group < tile.groups;) {
            float* sums = sums_ + ((index - first_tile) * Isa::kTileGroups + group) * kGroupOutputs * kMostRows;
            group += panel(tile, blocks, group, sums);
          }
        }
      }
    }
  }

  NextWeights next_panel(int index, int block) const {
    const LinearTile tile(layout_, job_.weight->packed(), index);
    if (block >= tile.blocks) return {};
    return {tile.lines(block), tile.block_bytes + tile.scale_bytes};
  }

  void copy_inputs(const PanelBlocks& blocks) {
    for (int r = 0; r < rows_; ++r) {
      Cell* to = x_ + r * kCells;
      for (int block = blocks.first; block < blocks.last; ++block) {
        const int begin = block * layout_.block;
        Arithmetic::copy_inputs(job_.x_row(row_ + r), begin, std::min(layout_.block, layout_.in - begin), to);
        to += blocks.block_inputs / 2 * Arithmetic::kPairCells;
      }
    }
  }

  // Multiplies as many groups as a register tile has, or fewer of a weight whose outputs are no whole tiles; returns
  // how many.
  int panel(const LinearTile& tile, const PanelBlocks& blocks, int group, float* sums) {
    const int left = tile.groups - group;
    if (left >= Isa::kPanelGroups) return panel_of<Isa::kPanelGroups>(tile, blocks, group, sums);
    if constexpr (kNarrowGroups<Format> < Isa::kPanelGroups) {
      if (left >= kNarrowGroups<Format>) return panel_of<kNarrowGroups<Format>>(tile, blocks, group, sums);
    }
    return panel_of<1>(tile, blocks, group, sums);
  }

  template <int kGroups>
  int panel_of(const LinearTile& tile, const PanelBlocks& blocks, int group, float* sums) {
    decode_panel<Format, V, Arithmetic, kGroups>(tile, blocks, group, weights_, scales_);
    // Parts are as even as they come: more than kPanelRows rows never leave a part of less than half of that.
    const int parts = (rows_ + Isa::kPanelRows - 1) / Isa::kPanelRows;
    for (int part = 0, row = 0; part < parts; ++part) {
      const int count = (rows_ - row + parts - part - 1) / (parts - part);
      if (group == 0) next_.prefetch(part, parts);
      with_rows<kGroups, Isa::kPanelRows>(tile, blocks, group, row, count, sums + row * kGroups * kGroupOutputs);
      row += count;
    }
    return kGroups;
  }

  template <int kGroups, int kRows>
  void with_rows(const LinearTile& tile, const PanelBlocks& blocks, int group, int row, int count, float* sums) {
    if constexpr (kRows > Isa::kPanelRows / 2) {
      if (count < kRows) return with_rows<kGroups, kRows - 1>(tile, blocks, group, row, count, sums);
    }
    multiply_panel<V, Arithmetic, kRows, kGroups>(tile, blocks, group, weights_, scales_, x_ + row * kCells, sums,
                                                  job_.y + (row_ + row) * job_.ldy, job_.ldy);
  }

  const LinearLayout& layout_;
  const LinearJob& job_;
  int row_, rows_;
  NextWeights next_;
  // Not initialised: all sums are written before they are read.
  alignas(64) float sums_[kMostRows * kTilesAtOnce * Isa::kTileGroups * kGroupOutputs];
  alignas(64) Cell x_[kMostRows * kCells];
  alignas(64) Cell weights_[kCells * Isa::kPanelGroups * kGroupOutputs];
  alignas(64) float scales_[kPanelInputs / Format::kInputs * Isa::kPanelGroups * kGroupOutputs];
};

}  // namespace sluice::cpu::SLUICE_ISA
