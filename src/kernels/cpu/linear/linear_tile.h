// The linear kernels of a vector ISA, written once over its lanes (kernels/cpu/<isa>/vec.h). There are two ways to
// compute a tile, of equal bits:
//
//   direct  (linear_direct.h)  few rows: a line of weights is decoded in registers for several rows at once
//   panel   (linear_panel.h)   many rows: weights are decoded to f32 in a buffer in L1 and multiplied with all rows
//
// Lanes are outputs; an output's chain over inputs is the one of kernels/ops/linear.h. An odd number of inputs leaves
// one pair without its odd half. There the padding weight is +0 and is multiplied by an input of -0, and adding -0
// changes nothing.
//
// An Isa has the type Vec and the constants
//   kTileGroups               groups of a tile
//   kChains                   vectors that must be in flight to hide the latency of an fma
//   kRowsGroupsInnermost      up to this many rows the lines of all groups fit in registers together
//   kPanelRows, kPanelGroups  the register tile of a panel
//   kStreams                  true if weights from memory must be prefetched: few rows then prefetch them, and one row
//                             has two tiles at once (Intel reads a third more that way, AMD a third less)
// A Format is a value that holds its tables in registers. It has
//   kInputs, kLineBytes       inputs and bytes of a line
//   kScaleBytes               bytes of an output's scale, as packed
//   kRows                     its RowsAtOnce
//   load(line, scales)        gives a Line
//   pair<p>(line, even, odd)  the weights of inputs 2 p and 2 p + 1, with f32 scales applied
//   Scale                     static load(scales), 1 if pair() applied the scales,
//                             and finish(acc, scale, y) = fma(acc, scale, y)
// Used by kernels/cpu/avx512_amx, kernels/cpu/avx512vbmi and kernels/cpu/linear.
#pragma once

#include <algorithm>
#include <cstddef>

#include "kernels/cpu/linear/linear_layout.h"

namespace sluice::cpu::SLUICE_ISA {

// The tiles of outputs [begin, end).
struct TileRange {
  [[gnu::always_inline]] TileRange(int tile_groups, int begin, int end)
      : first(begin / (tile_groups * kGroupOutputs)),
        last((end + tile_groups * kGroupOutputs - 1) / (tile_groups * kGroupOutputs)) {}
  int first, last;
};

// Outputs [begin, end) of a weight that has `out`, as tiles. With one row they may begin and end at any group of a
// tile.
struct OutputRange {
  int tile_groups, out, begin, end;

  // Calls part(tile, first group, last group) for tiles of which some groups are in the range, and whole(first tile,
  // last tile).
  template <class Part, class Whole>
  [[gnu::always_inline]] void walk(const Part& part, const Whole& whole) const {
    const int size = tile_groups * kGroupOutputs;
    int at = begin;
    if (at % size != 0) {
      const int tile = at / size, stop = std::min(end, (tile + 1) * size);
      part(tile, at % size / kGroupOutputs, (stop - tile * size + kGroupOutputs - 1) / kGroupOutputs);
      at = stop;
    }
    if (at >= end) return;
    const int last = end >= out ? (end + size - 1) / size : end / size;
    if (at / size < last) whole(at / size, last);
    at = std::max(at, last * size);
    if (at < end) part(last, 0, (end - at) / kGroupOutputs);
  }
};

// One tile of a packed weight.
struct LinearTile {
  [[gnu::always_inline]] LinearTile(const LinearLayout& layout, const std::byte* packed, int index)
      : data(packed + layout.tile_data(index)),
        in(layout.in),
        block(layout.block),
        blocks(layout.blocks),
        groups(layout.groups_in(index)),
        outputs(layout.outputs_in(index)),
        first_output(index * layout.tile_groups * kGroupOutputs),
        block_bytes(static_cast<std::size_t>(groups) * layout.block_bytes),
        last_block_bytes(static_cast<std::size_t>(groups) * layout.last_block_bytes),
        scale_bytes(static_cast<std::size_t>(groups) * layout.group_scale_bytes),
        tile_bytes(layout.tile_data(1)) {}

  // Returns the lines of a block, steps of all groups, and the scales after them.
  [[gnu::always_inline]] const std::byte* lines(int index) const {
    return data + static_cast<std::size_t>(index) * (block_bytes + scale_bytes);
  }
  [[gnu::always_inline]] const std::byte* scales(int index) const {
    return lines(index) + (index + 1 < blocks ? block_bytes : last_block_bytes);
  }

  const std::byte* data;
  int in, block, blocks;
  int groups, outputs;  // groups of the tile, and its outputs without padding
  int first_output;
  std::size_t block_bytes, last_block_bytes, scale_bytes;  // bytes of all groups' lines and scales in a block
  std::size_t tile_bytes;                                  // bytes from one tile to the next
};

// Prefetches a line of weights that is read soon and one that is read later. With kEvery > 1 it does so at every
// kEvery-th line, the same time ahead.
template <int kEvery = 1>
[[gnu::always_inline]] inline void prefetch_lines(const std::byte* line) {
  __builtin_prefetch(line + 3072 * kEvery, 0, 2);
  __builtin_prefetch(line + 512 * kEvery, 0, 3);
}

// The weights that are decoded next, fetched into L2 a part at a time while rows are multiplied.
struct NextWeights {
  const std::byte* from = nullptr;
  std::size_t bytes = 0;

  [[gnu::always_inline]] void prefetch(int part, int parts) const {
    const std::size_t lines = bytes / 64, all = static_cast<std::size_t>(parts);
    const std::size_t end = lines * static_cast<std::size_t>(part + 1) / all;
    for (std::size_t l = lines * static_cast<std::size_t>(part) / all; l < end; ++l) {
      __builtin_prefetch(from + 64 * l, 0, 2);
    }
  }
};

// Load and store the first `count` floats. 16 or more mean all: then no mask is used, because masked stores are slow on
// some machines.
template <class V>
[[gnu::always_inline]] inline V load_outputs(const float* p, int count) {
  return count >= kGroupOutputs ? V::load(p) : V::load_first(p, count);
}
template <class V>
[[gnu::always_inline]] inline void store_outputs(float* p, V v, int count) {
  count >= kGroupOutputs ? v.store(p) : v.store_first(p, count);
}

// Calls each(integral constant p) for p in [0, N).
template <int N, int P = 0, class Each>
[[gnu::always_inline]] inline void unroll(const Each& each) {
  if constexpr (P < N) {
    each.template operator()<P>();
    unroll<N, P + 1>(each);
  }
}

}  // namespace sluice::cpu::SLUICE_ISA
