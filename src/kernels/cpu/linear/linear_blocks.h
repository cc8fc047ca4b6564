// A tile for some more rows than kernels/cpu/linear/linear_direct.h has registers for, as speculative decoding has
// them. It goes block by block, a few groups of outputs at a time, so that the sums of all rows and these groups fit in
// registers and each weight is decoded once. Meanwhile y waits in L1, and so do the block's lines of the groups that
// come later. So memory is not read in ascending order, which processors would fetch ahead by themselves; instead each
// line asks for the one of a later block.
// Used by linear_direct.h.
#pragma once

#include <algorithm>
#include <cstddef>

#include "kernels/cpu/linear/linear_tile.h"

namespace sluice::cpu::SLUICE_ISA {

// Multiplies rows [row, row + kRows) of a whole tile, kGroups groups at a time.
template <class Isa, class Format, class Arithmetic, int kRows, int kGroups>
class LinearBlocks {
  using V = typename Isa::Vec;
  using Scale = typename Format::Scale;
  using Cell = typename Arithmetic::Cell;
  static constexpr int kPairs = Format::kInputs / 2, kStepCells = kPairs * Arithmetic::kPairCells;
  static constexpr int kOutputs = Isa::kTileGroups * kGroupOutputs;
  static constexpr std::size_t kGroupScales = kGroupOutputs * Format::kScaleBytes;
  static constexpr std::size_t kStepBytes = Format::kLineBytes * Isa::kTileGroups;
  // The cache that lines are fetched into: L1 if it holds two blocks of 128 inputs together with inputs and sums, else
  // L2.
  static constexpr int kCache = kStepBytes / Format::kInputs * 128 <= 4096 ? 3 : 2;

 public:
  [[gnu::noinline]] static void run(const LinearTile& tile, const LinearJob& job, int row) {
    alignas(64) float y[kRows][kOutputs] = {};
    const Cell* x[kRows];
    for (int r = 0; r < kRows; ++r) x[r] = Arithmetic::inputs(job.x_row(row + r));
    // Lines are fetched this many bytes ahead: whole blocks, at least 4 KB.
    const std::size_t ahead = (tile.block_bytes + tile.scale_bytes) * ((4095 + tile.block_bytes) / tile.block_bytes);
    for (int block = 0; block < tile.blocks; ++block) {
      const int inputs = std::min(tile.block, tile.in - block * tile.block);
      for (int group = 0; group < Isa::kTileGroups; group += kGroups) {
        add_block(tile, block, inputs, group, ahead, x, y);
      }
      for (int r = 0; r < kRows; ++r) x[r] += tile.block / 2 * Arithmetic::kPairCells;
    }
    for (int r = 0; r < kRows; ++r) {
      float* to = job.y + (row + r) * job.ldy + tile.first_output;
      for (int g = 0; g < Isa::kTileGroups; ++g) {
        store_outputs(to + g * kGroupOutputs, V::load(y[r] + g * kGroupOutputs), tile.outputs - g * kGroupOutputs);
      }
    }
  }

 private:
  [[gnu::always_inline]] static void add_block(const LinearTile& tile, int block, int inputs, int group,
                                               std::size_t ahead, const Cell* const (&rows)[kRows],
                                               float (&y)[kRows][kOutputs]) {
    const Format format;
    const std::byte* lines = tile.lines(block) + static_cast<std::size_t>(group) * Format::kLineBytes;
    const std::byte* scales = tile.scales(block) + static_cast<std::size_t>(group) * kGroupScales;
    const Cell* x[kRows];
    V acc[kRows][kGroups];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      x[r] = rows[r];
#pragma GCC unroll 4
      for (int g = 0; g < kGroups; ++g) acc[r][g] = V::zero();
    }
    for (int s = inputs / Format::kInputs; s > 0; --s) {
#pragma GCC unroll 4
      for (int g = 0; g < kGroups; ++g) {
        constexpr std::size_t kLine = 64;
#pragma GCC unroll 2
        for (std::size_t at = 0; at < Format::kLineBytes; at += kLine) {
          __builtin_prefetch(lines + static_cast<std::size_t>(g) * Format::kLineBytes + at + ahead, 0, kCache);
        }
      }
      step(format, lines, scales, x, acc);
      lines += kStepBytes;
      scales += kLineScales<Format>;
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) x[r] += kStepCells;
    }
    if (const int rest = inputs % Format::kInputs; rest != 0) partial_step(lines, scales, x, rest, acc);
#pragma GCC unroll 8
    for (int g = 0; g < kGroups; ++g) {
      const V scale = Scale::load(scales + static_cast<std::size_t>(g) * kGroupScales);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        float* sum = y[r] + (group + g) * kGroupOutputs;
        Scale::finish(acc[r][g], scale, V::load(sum)).store(sum);
      }
    }
  }

  // Multiplies one line of every group; x points at the step's inputs of each row.
  [[gnu::always_inline]] static void step(const Format& format, const std::byte* lines, const std::byte* scales,
                                          const Cell* const* x, V (&acc)[kRows][kGroups]) {
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g) {
      const auto line = format.load(lines + static_cast<std::size_t>(g) * Format::kLineBytes,
                                    scales + static_cast<std::size_t>(g) * kGroupScales);
      unroll<kPairs>([&]<int P>() __attribute__((always_inline)) { add_pair<P>(format, line, x, g, acc); });
    }
  }

  // Returns `format`, hidden from the compiler if the decoding tables do not fit in registers. The compiler then loads
  // them at each use instead of spilling sums, whose chains would go through memory.
  [[gnu::always_inline]] static const Format& beside_sums(const Format& format) {
    const Format* decoder = &format;
    if constexpr (requires { requires Format::kRowsWithoutConstants == kRows; }) asm volatile("" : "+r"(decoder));
    return *decoder;
  }

  template <int P, class Line>
  [[gnu::always_inline]] static void add_pair(const Format& format, const Line& line, const Cell* const* x, int g,
                                              V (&acc)[kRows][kGroups]) {
    const auto weights = Arithmetic::template decode_pair<P>(beside_sums(format), line);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Cell* pair = x[r] + P * Arithmetic::kPairCells;
      // The groups share the broadcasts of a step, but those of kRows rows do not fit in registers. The empty asm makes
      // the compiler load them again for each group instead of spilling them.
      asm("" : "+r"(pair));
      acc[r][g] = Arithmetic::add(pair, weights, acc[r][g]);
    }
  }

  // `sums` is a copy of `acc`, because values that a call may write to cannot live in registers.
  [[gnu::always_inline]] static void partial_step(const std::byte* lines, const std::byte* scales,
                                                  const Cell* const (&x)[kRows], int count, V (&acc)[kRows][kGroups]) {
    V sums[kRows][kGroups];
    std::copy_n(&acc[0][0], kRows * kGroups, &sums[0][0]);
    add_partial(lines, scales, x, count, sums);
    std::copy_n(&sums[0][0], kRows * kGroups, &acc[0][0]);
  }

  [[gnu::noinline]] static void add_partial(const std::byte* lines, const std::byte* scales, const Cell* const* x,
                                            int count, V (&acc)[kRows][kGroups]) {
    Cell padded[kRows][kStepCells];
    const Cell* rows[kRows];
    // In a pair with one input, the second is skipped.
    const int cells = Arithmetic::kPairCells == 2 ? count : (count + 1) / 2;
    for (int r = 0; r < kRows; ++r) {
      for (int i = 0; i < kStepCells; ++i) padded[r][i] = i < cells ? x[r][i] : Arithmetic::kNothing;
      rows[r] = padded[r];
    }
    step(Format(), lines, scales, rows, acc);
  }
};

}  // namespace sluice::cpu::SLUICE_ISA
