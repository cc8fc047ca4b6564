// A tile for few rows, with the weights decoded in registers (see linear_tile.h).
// Used by kernels/cpu/avx512_bf16/bf16_linear.cc and linear_run.h.
#pragma once

#include <algorithm>
#include <cstddef>

#include "kernels/cpu/linear/linear_blocks.h"
#include "kernels/cpu/linear/linear_tile.h"

namespace sluice::cpu::SLUICE_ISA {

// Multiplies rows [row, row + kRows) by kGroups groups of a tile, from `group` on, or by two whole tiles that have
// kGroups together.
template <class Isa, class Format, class Arithmetic, int kRows, int kGroups>
class LinearDirect {
  using V = typename Isa::Vec;
  using Scale = typename Format::Scale;
  using Cell = typename Arithmetic::Cell;
  // Blocks that are multiplied at once, each with its own chains.
  static constexpr int kBlocks = std::max(1, Isa::kChains / (kRows * kGroups));
  static constexpr int kStepCells = Format::kInputs / 2 * Arithmetic::kPairCells;
  static constexpr int kTile = std::min(kGroups, Isa::kTileGroups);
  static constexpr std::size_t kGroupScales = kGroupOutputs * Format::kScaleBytes;

 public:
  [[gnu::noinline]] static void run(const LinearTile& tile, const LinearJob& job, int row, int group) {
    LinearDirect kernel(tile, job, row, group);
    const int whole = tile.in / tile.block;
    int block = 0;
    if constexpr (kBlocks > 1) {
      for (; block + kBlocks <= whole; block += kBlocks) kernel.template blocks<kBlocks>(block, tile.block);
    }
    if constexpr (kBlocks > 2) {  // fewer than kBlocks blocks are left
      for (; block + 2 <= whole; block += 2) kernel.template blocks<2>(block, tile.block);
    }
    for (; block < tile.blocks; ++block) {
      kernel.template blocks<1>(block, std::min(tile.block, tile.in - block * tile.block));
    }
    for (int r = 0; r < kRows; ++r) {
      float* y = job.y + (row + r) * job.ldy + tile.first_output + group * kGroupOutputs;
      for (int g = 0; g < kGroups; ++g) {
        const int left = kGroups > kTile ? kGroupOutputs : tile.outputs - (group + g) * kGroupOutputs;
        store_outputs(y + g * kGroupOutputs, kernel.y_[r][g], left);
      }
    }
  }

 private:
  LinearDirect(const LinearTile& tile, const LinearJob& job, int row, int group) : tile_(tile), group_(group) {
    for (int r = 0; r < kRows; ++r) {
      x_[r] = Arithmetic::inputs(job.x_row(row + r));
      for (int g = 0; g < kGroups; ++g) y_[r][g] = V::zero();
    }
  }

  // Multiplies one line of every group; x points at the step's inputs of each row.
  [[gnu::always_inline]] static void step(const Format& format, std::size_t tile_bytes, const std::byte* lines,
                                          const std::byte* scales, const Cell* const* x, V (&acc)[kRows][kGroups]) {
    const auto load = [&](int g) __attribute__((always_inline)) {
      const std::byte* line = lines + at(tile_bytes, g, Format::kLineBytes);
      if constexpr (Isa::kStreams) prefetch_lines<Isa::kTileGroups / kTile>(line);
      return format.load(line, scales + at(tile_bytes, g, kGroupScales));
    };
    constexpr int kPairs = Format::kInputs / 2;
    if constexpr (kRows <= Isa::kRowsGroupsInnermost) {
      // The loop over groups is innermost, because only their chains hide the latency of an fma.
#pragma GCC unroll 2
      for (int tile = 0; tile < kGroups; tile += kTile) {
        decltype(load(0)) line[kTile];
#pragma GCC unroll 4
        for (int g = 0; g < kTile; ++g) line[g] = load(tile + g);
        unroll<kPairs>([&]<int P>() __attribute__((always_inline)) {
#pragma GCC unroll 4
          for (int g = 0; g < kTile; ++g) add_pair<P>(format, line[g], x, tile + g, acc);
        });
      }
    } else {
#pragma GCC unroll 4
      for (int g = 0; g < kGroups; ++g) {
        const auto line = load(g);
        unroll<kPairs>([&]<int P>() __attribute__((always_inline)) { add_pair<P>(format, line, x, g, acc); });
      }
    }
  }

  template <int P, class Line>
  [[gnu::always_inline]] static void add_pair(const Format& format, const Line& line, const Cell* const* x, int g,
                                              V (&acc)[kRows][kGroups]) {
    const auto weights = Arithmetic::template decode_pair<P>(format, line);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Cell* pair = x[r] + P * Arithmetic::kPairCells;
      // The groups share the broadcasts of a step, but with more rows those do not fit in registers. The empty asm
      // makes the compiler load them again for each group instead of spilling them.
      if constexpr (kRows > Arithmetic::kRowsKept) asm("" : "+r"(pair));
      acc[r][g] = Arithmetic::add(pair, weights, acc[r][g]);
    }
  }

  // Multiplies kCount blocks of `inputs` inputs each.
  template <int kCount>
  [[gnu::always_inline]] void blocks(int block, int inputs) {
    const Format format;
    V acc[kCount][kRows][kGroups];
    const Cell* x[kCount][kRows];
    const std::byte* lines[kCount];
    const std::byte* scales[kCount];
#pragma GCC unroll 8
    for (int b = 0; b < kCount; ++b) {
      lines[b] = tile_.lines(block + b) + static_cast<std::size_t>(group_) * Format::kLineBytes;
      scales[b] = tile_.scales(block + b) + static_cast<std::size_t>(group_) * kGroupScales;
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        x[b][r] = x_[r] + (block + b) * tile_.block / 2 * Arithmetic::kPairCells;
#pragma GCC unroll 4
        for (int g = 0; g < kGroups; ++g) acc[b][r][g] = V::zero();
      }
    }
    const std::size_t step_bytes =
        Format::kLineBytes * static_cast<std::size_t>(kGroups < Isa::kTileGroups ? tile_.groups : kTile);
    for (int s = inputs / Format::kInputs; s > 0; --s) {
#pragma GCC unroll 8
      for (int b = 0; b < kCount; ++b) {
        step(format, tile_.tile_bytes, lines[b], scales[b], x[b], acc[b]);
        lines[b] += step_bytes;
        scales[b] += kLineScales<Format>;
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) x[b][r] += kStepCells;
      }
    }
#pragma GCC unroll 8
    for (int b = 0; b < kCount; ++b) {
      if (const int rest = inputs % Format::kInputs; rest != 0) {
        V sums[kRows][kGroups];  // a copy of `acc`, because values that a call may write to cannot live in registers
        copy(acc[b], sums);
        partial_step(tile_.tile_bytes, lines[b], scales[b], x[b], rest, sums);
        copy(sums, acc[b]);
      }
#pragma GCC unroll 8
      for (int g = 0; g < kGroups; ++g) {
        const V scale = Scale::load(scales[b] + at(tile_.tile_bytes, g, kGroupScales));
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) y_[r][g] = Scale::finish(acc[b][r][g], scale, y_[r][g]);
      }
    }
  }

  // Returns the offset of group g's `size` bytes from the first tile's; groups past a tile are in the next tile.
  [[gnu::always_inline]] static std::size_t at(std::size_t tile_bytes, int g, std::size_t size) {
    return static_cast<std::size_t>(g / kTile) * tile_bytes + static_cast<std::size_t>(g % kTile) * size;
  }

  [[gnu::noinline]] static void partial_step(std::size_t tile_bytes, const std::byte* lines, const std::byte* scales,
                                             const Cell* const* x, int count, V (&acc)[kRows][kGroups]) {
    Cell padded[kRows][kStepCells];
    const Cell* rows[kRows];
    // In a pair with one input, the second is skipped.
    const int cells = Arithmetic::kPairCells == 2 ? count : (count + 1) / 2;
    for (int r = 0; r < kRows; ++r) {
      for (int i = 0; i < kStepCells; ++i) padded[r][i] = i < cells ? x[r][i] : Arithmetic::kNothing;
      rows[r] = padded[r];
    }
    step(Format(), tile_bytes, lines, scales, rows, acc);
  }

  [[gnu::always_inline]] static void copy(const V (&from)[kRows][kGroups], V (&to)[kRows][kGroups]) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int g = 0; g < kGroups; ++g) to[r][g] = from[r][g];
    }
  }

  const LinearTile& tile_;
  const int group_;
  const Cell* x_[kRows];
  V y_[kRows][kGroups];
};

// Multiplies any number of rows, in parts as even as they come: 8 rows are 4 + 4.
template <class Isa, class Format, class Arithmetic>
class LinearDirectRows {
  static constexpr int kDirect = Format::kRows.direct, kBlocks = Format::kRows.blocks;
  static constexpr int kAlone = std::max(Format::kRows.alone, kDirect);

 public:
  // Multiplies a tile that has one group only.
  static void run_group(const LinearTile& tile, const LinearJob& job, int rows) {
    for (int row = 0; row < rows; row += kDirect) {
      with_rows<1, kDirect>(tile, job, row, std::min(kDirect, rows - row), 0);
    }
  }
  static void run(const LinearTile& tile, const LinearJob& job, int rows) {
    const bool by_blocks = kBlocks > 0 && rows > kDirect && tile.groups == Isa::kTileGroups;
    const int most = by_blocks ? kBlocks : rows <= kAlone ? kAlone : kDirect, parts = (rows + most - 1) / most;
    for (int part = 0, row = 0; part < parts; ++part) {
      const int count = (rows - row + parts - part - 1) / (parts - part);
      if (by_blocks) {
        with_rows_by_blocks<kBlocks>(tile, job, row, count);
      } else if (tile.groups == Isa::kTileGroups) {
        with_rows<Isa::kTileGroups, kAlone>(tile, job, row, count, 0);
      } else {
        narrow(tile, job, row, count);
      }
      row += count;
    }
  }

 private:
  // Multiplies the last tile of a weight if it is not whole. It has few specialised kernels, as each takes long to
  // compile.
  static void narrow(const LinearTile& tile, const LinearJob& job, int row, int count) {
    if constexpr (kNarrowRows<Format>) {
      int group = 0;
      for (; kNarrowGroups<Format> > 1 && group + kNarrowGroups<Format> <= tile.groups;
           group += kNarrowGroups<Format>) {
        with_rows<kNarrowGroups<Format>, kAlone>(tile, job, row, count, group);
      }
      for (; group < tile.groups; ++group) with_rows<1, kAlone>(tile, job, row, count, group);
    } else {
      for (int group = 0; group < tile.groups; ++group) {
        for (int r = 0; r < count; ++r) LinearDirect<Isa, Format, Arithmetic, 1, 1>::run(tile, job, row + r, group);
      }
    }
  }

  template <int kGroups, int kRows>
  static void with_rows(const LinearTile& tile, const LinearJob& job, int row, int count, int group) {
    if constexpr (kRows > 1) {
      if (count < kRows) return with_rows<kGroups, kRows - 1>(tile, job, row, count, group);
    }
    LinearDirect<Isa, Format, Arithmetic, kRows, kGroups>::run(tile, job, row, group);
  }

  // `count` is at least 2, because more than kDirect rows are never cut into parts of one row.
  template <int kRows>
  static void with_rows_by_blocks(const LinearTile& tile, const LinearJob& job, int row, int count) {
    if constexpr (kRows > 1) {
      if (count < kRows) return with_rows_by_blocks<kRows - 1>(tile, job, row, count);
      LinearBlocks<Isa, Format, Arithmetic, kRows, Isa::kBlockGroups>::run(tile, job, row);
    }
  }
};

// Computes outputs [begin, end): with one row any groups, with more rows whole tiles.
template <class Isa, class Format, class Arithmetic>
void run_direct(const LinearLayout& layout, const LinearJob& job, int rows, int begin, int end) {
  const auto tile = [&](int index) { return LinearTile(layout, job.weight->packed(), index); };
  const auto part = [&](int index, int group, int last) {
    if constexpr (Isa::kTileGroups > 2) {
      const LinearTile of = tile(index);
      for (; group + 2 <= last; group += 2) LinearDirect<Isa, Format, Arithmetic, 1, 2>::run(of, job, 0, group);
    }
    if (group < last) LinearDirect<Isa, Format, Arithmetic, 1, 1>::run(tile(index), job, 0, group);
  };
  const auto whole = [&](int index, int last) {
    if constexpr (Isa::kStreams) {
      const int pairs = std::min(last, layout.out / (Isa::kTileGroups * kGroupOutputs));
      for (; rows == 1 && index + 2 <= pairs; index += 2) {
        LinearDirect<Isa, Format, Arithmetic, 1, 2 * Isa::kTileGroups>::run(tile(index), job, 0, 0);
      }
    }
    for (; index < last; ++index) LinearDirectRows<Isa, Format, Arithmetic>::run(tile(index), job, rows);
  };
  OutputRange{Isa::kTileGroups, layout.out, begin, end}.walk(part, whole);
}

}  // namespace sluice::cpu::SLUICE_ISA
