// The linear kernels of a vector ISA, written once over its primitives. Two ways to compute a tile of outputs, of equal
// bits:
//
//   direct   few rows: each line of weights is decoded in registers and multiplied with up to Isa::kDirectRows rows at
//   once panel    many rows: blocks of the tile are decoded to f32 once, in a buffer of up to 32 KB, and multiplied
//   with all rows,
//            6 at a time
//
// Lanes are outputs; an output's chain over inputs is the one of kernels/linear.h. An odd number of inputs leaves one
// pair without its odd half: the padding weight is +0 and stands against an input of -0, and adding -0 changes nothing.
//
// An Isa has the type Vec (16 floats, cpu/<isa>/vec.h), prefetch(line, bytes), and the constants
//   kTileGroups   groups of a tile
//   kPanelGroups  groups of a register tile of 6 rows
//   kDirectRows   rows of a direct register tile
//   kPanelFrom    rows from which on panels win, at least 13
//   kChains       vectors that must be in flight to hide the latency of an fma
//   kHeldInputs   broadcast inputs that fit in registers beside the rest
// A Format (of one Isa) has kInputs, kLineBytes, kScaleBytes (per output, as packed), and the const member
// decode(line, scales, w), the weights of each input (f32 scales applied); it is a value that holds its tables in
// registers. Its type Scale has kBytes (0 where decode applied the scales), and static load(scales) and finish(acc,
// scale, y) = fma(acc, scale, y). All belong to one ISA, so no code made from these templates is shared by ISAs.
#pragma once

#include <algorithm>
#include <cstddef>

#include "kernels/cpu/linear_layout.h"

namespace sluice {

// One tile of a packed weight, and the rows to multiply it with.
struct LinearTile {
  const std::byte* data;
  const std::byte* scales;
  int in, block, blocks;
  int outputs;  // valid ones
  const LinearJob* job;
  int first_output;

  float* y(int row) const { return job->y + row * job->ldy + first_output; }
};

// The first `count` floats; 16 or more mean all, without a mask, which some machines are slow to store through.
template <class Vec>
[[gnu::always_inline]] inline Vec load_outputs(const float* p, int count) {
  return count >= kGroupOutputs ? Vec::load(p) : Vec::load_first(p, count);
}
template <class Vec>
[[gnu::always_inline]] inline void store_outputs(float* p, Vec v, int count) {
  count >= kGroupOutputs ? v.store(p) : v.store_first(p, count);
}

// Rows [row, row + kRows) of a tile of kGroups groups, decoding as it goes.
template <class Isa, class Format, int kRows, int kGroups>
class DirectKernel {
  using Vec = typename Isa::Vec;
  // Blocks in flight, each with its own chains.
  static constexpr int kBlocks = std::max(1, Isa::kChains / (kRows * kGroups));
  static constexpr std::size_t kStepBytes = Format::kLineBytes * kGroups;
  static constexpr std::size_t kBlockScaleBytes = Format::kScaleBytes * kGroupOutputs * kGroups;

 public:
  [[gnu::noinline]] static void run(const LinearTile& tile, int row) {
    DirectKernel kernel(tile, row);
    const int whole = tile.in / tile.block;
    int block = 0;
    if constexpr (kBlocks > 1) {
      for (; block + kBlocks <= whole; block += kBlocks) kernel.template blocks<kBlocks>(block, tile.block);
    }
    for (; block < tile.blocks; ++block) {
      kernel.template blocks<1>(block, std::min(tile.block, tile.in - block * tile.block));
    }
    for (int r = 0; r < kRows; ++r) {
      for (int g = 0; g < kGroups; ++g) {
        store_outputs(tile.y(row + r) + g * kGroupOutputs, kernel.y_[r][g], tile.outputs - g * kGroupOutputs);
      }
    }
  }

 private:
  DirectKernel(const LinearTile& tile, int row) : tile_(tile) {
    for (int r = 0; r < kRows; ++r) {
      x_[r] = tile.job->x_row(row + r);
      for (int g = 0; g < kGroups; ++g) y_[r][g] = Vec::zero();
    }
    steps_ = (tile.block + Format::kInputs - 1) / Format::kInputs;
  }

  const std::byte* block_data(int block) const {
    return tile_.data + static_cast<std::size_t>(block) * static_cast<std::size_t>(steps_) * kStepBytes;
  }
  const std::byte* block_scales(int block) const {
    return tile_.scales + static_cast<std::size_t>(block) * kBlockScaleBytes;
  }

  // One line of every group; x points at the step's inputs of each row.
  static inline void step(const Format& format, const std::byte* line, const std::byte* scales, const float* const* x,
                          Vec (&acc)[kRows][kGroups]) {
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g) {
      Vec w[Format::kInputs];
      format.decode(line + static_cast<std::size_t>(g) * Format::kLineBytes,
                    scales + static_cast<std::size_t>(g) * kGroupOutputs * Format::kScaleBytes, w);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const float* row = x[r];
        // With more rows the broadcasts of a step do not fit in registers: hide that the groups share them, so that the
        // compiler loads them again instead of spilling them.
        if constexpr (kRows * Format::kInputs > Isa::kHeldInputs) asm("" : "+r"(row));
#pragma GCC unroll 8
        for (int i = 0; i < Format::kInputs; ++i) {
          acc[r][g] = fma(Vec::broadcast(row[i ^ 1]), w[i ^ 1], acc[r][g]);
        }
      }
    }
  }

  void finish(int block, const Vec (&acc)[kRows][kGroups]) {
    const std::byte* scales = block_scales(block);
    for (int g = 0; g < kGroups; ++g) {
      const Vec scale = Format::Scale::load(scales + static_cast<std::size_t>(g) * kGroupOutputs * Format::kScaleBytes);
      for (int r = 0; r < kRows; ++r) y_[r][g] = Format::Scale::finish(acc[r][g], scale, y_[r][g]);
    }
  }

  // kCount blocks of `inputs` inputs each.
  template <int kCount>
  void blocks(int block, int inputs) {
    const Format format;
    Vec acc[kCount][kRows][kGroups];
    const float* x[kCount][kRows];
    for (int b = 0; b < kCount; ++b) {
      for (int r = 0; r < kRows; ++r) {
        x[b][r] = x_[r] + (block + b) * tile_.block;
        for (int g = 0; g < kGroups; ++g) acc[b][r][g] = Vec::zero();
      }
    }
    const std::byte* line = block_data(block);
    const std::byte* scales = block_scales(block);
    const std::size_t block_stride = static_cast<std::size_t>(steps_) * kStepBytes;
    for (int s = inputs / Format::kInputs; s > 0; --s, line += kStepBytes) {
#pragma GCC unroll 8
      for (int b = 0; b < kCount; ++b) {
        Isa::prefetch(line + static_cast<std::size_t>(b) * block_stride, kStepBytes);
        step(format, line + static_cast<std::size_t>(b) * block_stride,
             scales + static_cast<std::size_t>(b) * kBlockScaleBytes, x[b], acc[b]);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) x[b][r] += Format::kInputs;
      }
    }
    for (int b = 0; b < kCount; ++b) {
      if (const int rest = inputs % Format::kInputs; rest != 0) {
        partial_step(format, line + static_cast<std::size_t>(b) * block_stride,
                     scales + static_cast<std::size_t>(b) * kBlockScaleBytes, x[b], rest, acc[b]);
      }
      finish(block + b, acc[b]);
    }
  }

  [[gnu::noinline]] static void partial_step(const Format& format, const std::byte* line, const std::byte* scales,
                                             const float* const* x, int count, Vec (&acc)[kRows][kGroups]) {
    float padded[kRows][Format::kInputs];
    const float* rows[kRows];
    for (int r = 0; r < kRows; ++r) {
      for (int i = 0; i < Format::kInputs; ++i) padded[r][i] = i < count ? x[r][i] : -0.0F;
      rows[r] = padded[r];
    }
    step(format, line, scales, rows, acc);
  }

  const LinearTile& tile_;
  const float* x_[kRows];
  Vec y_[kRows][kGroups];
  int steps_;
};

// Some decoded blocks: row q of a block is the q-th input of its chain (input q ^ 1), the tile's outputs side by side.
template <int kGroups>
struct LinearPanel {
  static constexpr int kInputs = 128;
  static constexpr int kStride = kGroups * kGroupOutputs;
  alignas(64) float weights[kInputs * kStride];
};

// The blocks [first, last) of a tile, in a panel: each takes `block_inputs` rows of it.
struct LinearBlocks {
  int first, last, block_inputs;

  int inputs(const LinearTile& tile, int block) const { return std::min(tile.block, tile.in - block * tile.block); }
};

template <class Isa, class Format, int kGroups>
void decode_panel(const LinearTile& tile, const LinearBlocks& blocks, LinearPanel<kGroups>& panel) {
  using Panel = LinearPanel<kGroups>;
  const Format format;
  const auto lines = static_cast<std::size_t>(blocks.block_inputs / Format::kInputs * kGroups);
  const std::byte* line = tile.data + static_cast<std::size_t>(blocks.first) * lines * Format::kLineBytes;
  for (int block = blocks.first; block < blocks.last; ++block) {
    float* to =
        panel.weights + static_cast<std::ptrdiff_t>((block - blocks.first) * blocks.block_inputs) * Panel::kStride;
    const std::byte* scales =
        tile.scales + static_cast<std::size_t>(block * kGroups * kGroupOutputs) * Format::kScaleBytes;
    const int count = blocks.inputs(tile, block);
    for (int k = 0; k < count; k += Format::kInputs, to += Format::kInputs * Panel::kStride) {
#pragma GCC unroll 4
      for (int g = 0; g < kGroups; ++g, line += Format::kLineBytes) {
        typename Isa::Vec w[Format::kInputs];
        format.decode(line, scales + static_cast<std::size_t>(g * kGroupOutputs) * Format::kScaleBytes, w);
#pragma GCC unroll 8
        for (int i = 0; i < Format::kInputs; ++i) {
          w[i].store(to + (i ^ 1) * Panel::kStride + g * kGroupOutputs);
        }
      }
    }
  }
}

// Multiplies the blocks of a panel with rows. Scale: the scale part of the format.
template <class Isa, class Scale, int kGroups>
class PanelProduct {
  using Vec = typename Isa::Vec;
  using Panel = LinearPanel<kGroups>;
  static constexpr int kTileGroups = std::min(kGroups, Isa::kPanelGroups);  // of one register tile

 public:
  PanelProduct(const LinearTile& tile, const LinearBlocks& blocks, const Panel& panel)
      : tile_(tile), blocks_(blocks), panel_(panel) {}

  // Row blocks as even as they come: 16 rows are 6 + 5 + 5. From 13 rows on none has fewer than 4.
  void run(int rows) const {
    const int parts = (rows + 5) / 6;
    for (int part = 0, row = 0; part < parts; ++part) {
      const int count = (rows - row + parts - part - 1) / (parts - part);
      for (int g = 0; g < kGroups; g += kTileGroups) {
        if (count == 6) product<6>(row, g);
        if (count == 5) product<5>(row, g);
        if (count == 4) product<4>(row, g);
      }
      row += count;
    }
  }

 private:
  template <int kRows>
  [[gnu::noinline]] void product(int row, int group) const {
    const int outputs = tile_.outputs - group * kGroupOutputs;
    Vec y[kRows][kTileGroups];
    for (int r = 0; r < kRows; ++r) {
      const float* from = tile_.y(row + r) + group * kGroupOutputs;
      for (int g = 0; g < kTileGroups; ++g) {
        y[r][g] =
            blocks_.first == 0 ? Vec::zero() : load_outputs<Vec>(from + g * kGroupOutputs, outputs - g * kGroupOutputs);
      }
    }
    for (int block = blocks_.first; block < blocks_.last; ++block) {
      Vec acc[kRows][kTileGroups];
      chains<kRows>(row, group, block, acc);
      const std::byte* scales =
          tile_.scales + static_cast<std::size_t>((block * kGroups + group) * kGroupOutputs) * Scale::kBytes;
#pragma GCC unroll 4
      for (int g = 0; g < kTileGroups; ++g) {
        const Vec scale = Scale::load(scales + static_cast<std::size_t>(g * kGroupOutputs) * Scale::kBytes);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) y[r][g] = Scale::finish(acc[r][g], scale, y[r][g]);
      }
    }
    for (int r = 0; r < kRows; ++r) {
      float* to = tile_.y(row + r) + group * kGroupOutputs;
      for (int g = 0; g < kTileGroups; ++g) {
        store_outputs(to + g * kGroupOutputs, y[r][g], outputs - g * kGroupOutputs);
      }
    }
  }

  template <int kRows>
  inline void chains(int row, int group, int block, Vec (&acc)[kRows][kTileGroups]) const {
    const float* x[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      x[r] = tile_.job->x_row(row + r) + block * tile_.block;
#pragma GCC unroll 4
      for (int g = 0; g < kTileGroups; ++g) acc[r][g] = Vec::zero();
    }
    const int count = blocks_.inputs(tile_, block);
    const float* w = panel_.weights + group * kGroupOutputs +
                     static_cast<std::ptrdiff_t>((block - blocks_.first) * blocks_.block_inputs) * Panel::kStride;
    std::ptrdiff_t k = 0;
    for (; k + 1 < count; k += 2, w += 2 * Panel::kStride) {
      one_input<kRows>(x, k + 1, w, acc);
      one_input<kRows>(x, k, w + Panel::kStride, acc);
    }
    if (k < count) one_input<kRows>(x, k, w + Panel::kStride, acc);
  }

  template <int kRows>
  static inline void one_input(const float* const* x, std::ptrdiff_t k, const float* w,
                               Vec (&acc)[kRows][kTileGroups]) {
    Vec weights[kTileGroups];
#pragma GCC unroll 4
    for (int g = 0; g < kTileGroups; ++g) weights[g] = Vec::load(w + g * kGroupOutputs);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Vec value = Vec::broadcast(x[r][k]);
#pragma GCC unroll 4
      for (int g = 0; g < kTileGroups; ++g) acc[r][g] = fma(value, weights[g], acc[r][g]);
    }
  }

  const LinearTile& tile_;
  const LinearBlocks blocks_;
  const Panel& panel_;
};

// Blocks of at most LinearPanel::kInputs inputs and at least 13 rows only.
template <class Isa, class Format, int kGroups>
void run_panels(const LinearTile& tile, int rows) {
  LinearPanel<kGroups> panel;
  const int block_inputs = (tile.block + Format::kInputs - 1) / Format::kInputs * Format::kInputs;
  const int at_once = LinearPanel<kGroups>::kInputs / block_inputs;
  for (int first = 0; first < tile.blocks; first += at_once) {
    const LinearBlocks blocks{first, std::min(tile.blocks, first + at_once), block_inputs};
    decode_panel<Isa, Format, kGroups>(tile, blocks, panel);
    PanelProduct<Isa, typename Format::Scale, kGroups>(tile, blocks, panel).run(rows);
  }
}

// Outputs [begin, end) of a job, in tiles of Isa::kTileGroups groups and a narrower last one.
template <class Isa, class Format>
class LinearRunner {
 public:
  static void run(const LinearJob& job, int rows, int begin, int end) {
    const LinearLayout layout(job.weight->view(), Isa::kTileGroups);
    const std::byte* packed = job.weight->packed();
    for (int n = begin; n < end; n += Isa::kTileGroups * kGroupOutputs) {
      const int index = n / (Isa::kTileGroups * kGroupOutputs);
      const LinearTile tile{packed + layout.tile_data(index),
                            packed + layout.tile_scales(index),
                            layout.in,
                            layout.block,
                            layout.blocks,
                            layout.outputs_in(index),
                            &job,
                            n};
      run_tile<Isa::kTileGroups>(tile, rows);
    }
  }

 private:
  template <int kGroups>
  static void run_tile(const LinearTile& tile, int rows) {
    if constexpr (kGroups > 1) {
      if (tile.outputs <= (kGroups - 1) * kGroupOutputs) return run_tile<kGroups - 1>(tile, rows);
    }
    if (rows >= Isa::kPanelFrom && tile.block <= LinearPanel<kGroups>::kInputs) {
      return run_panels<Isa, Format, kGroups>(tile, rows);
    }
    const int parts = (rows + Isa::kDirectRows - 1) / Isa::kDirectRows;
    for (int part = 0, row = 0; part < parts; ++part) {
      const int count = (rows - row + parts - part - 1) / (parts - part);
      direct<kGroups, Isa::kDirectRows>(tile, row, count);
      row += count;
    }
  }

  template <int kGroups, int kRows>
  static void direct(const LinearTile& tile, int row, int count) {
    if (count == kRows) return DirectKernel<Isa, Format, kRows, kGroups>::run(tile, row);
    if constexpr (kRows > 1) return direct<kGroups, kRows - 1>(tile, row, count);
  }
};

}  // namespace sluice
