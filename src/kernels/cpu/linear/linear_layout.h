// The layout of weights for the AVX2 and AVX-512 linear kernels.
//
// Outputs lie in the lanes of vectors, so the chain of an output stays one chain (kernels/ops/linear.h). The unit is a
// line: 16 outputs (a group) times `step_inputs` inputs:
//   fp8     64 bytes, 4 inputs; their places follow the ISA's decoder (Fp8Order)
//   mxfp4   64 bytes, 8 inputs: a dword an output, its nibbles from low to high the inputs 0 2 4 6 1 3 5 7
//   bf16    64 bytes, 2 inputs: a dword an output, the odd input in the high half
//   f32    128 bytes, 2 inputs: 16 odd inputs, then 16 even ones; of a weight of 8 outputs at most 64 bytes: 8, then 8
//   codes of 4 bits   as mxfp4, each less the least one (BlockCodes::lowest); of types with levels their numbers
//   codes of 8 bits   128 bytes, 8 inputs: a dword an output of inputs 0 4 1 5, then the same of 2 6 3 7; each plus 128
//   transposed codes  as codes
// A tile is `tile_groups` groups (the last tile of a weight may have fewer): [tile][block] { [step][group][line],
// [output] scale }. A block is what one scale covers, and inputs past its end are zero. Scales are e8m0 bytes, f32 for
// f32 scales, nothing without scales. For codes they are a group's 16 scales, then its minima, f16 or f32
// (BlockCodes::f16). For transposed codes each group has 8 scales of 8 inputs, then their minima, and so on, f32.
// Scales follow their lines so that a tile is one stream, which processors fetch ahead by themselves (two streams read
// 10 to 17 % less). Packed weights are as small as in the checkpoint, with three exceptions: outputs are padded to 16
// (or 8), scales of a block_out that exceeds 1 are repeated, and the scales of scales of blocks of 256 codes are
// multiplied out.
// Used by kernels/cpu, kernels/cpu/avx2, kernels/cpu/avx512_bf16, kernels/cpu/avx512vbmi and kernels/cpu/linear.
#pragma once

#include <algorithm>
#include <cstddef>

#include "kernels/ops/linear.h"

namespace sluice {

inline constexpr int kGroupOutputs = 16;
inline constexpr int kAvx2TileGroups = 2, kAvx512TileGroups = 4;

enum class Fp8Order {
  kPairs,    // output o of a quarter q = o / 4: inputs 0, 1 at 16 q + 2 (o % 4), inputs 2, 3 eight bytes on
  kPlanes,   // input i of output o at 16 i + o
  kNibbles,  // inputs 0, 1 at 16 (q % 2) + 8 (q / 2) + 2 (o % 4), inputs 2, 3 at 32 bytes on; each as fp8_nibbles()
};

// An e4m3 code with its sign one bit above the lowest of its exponent. Each nibble gives a byte of the bf16, the high
// or the low one, and subnormal codes, of either sign, are below 24.
constexpr unsigned fp8_nibbles(unsigned code) {
  return (code & 0x0FU) | (code & 0x70U) << 1 | (code & 0x80U) >> 3;
}

// True if lines have 8 outputs: padded to 16, a weight of at most 8 would take twice as long to read.
inline constexpr int kHalfGroupOutputs = kGroupOutputs / 2;
inline bool has_half_lines(const WeightView& view) {
  return view.format == WeightFormat::kF32 && view.out <= kHalfGroupOutputs;
}

struct LinearLayout {
  LinearLayout(const WeightView& view, int tile_groups);

  int groups_in(int tile) const { return (outputs_in(tile) + kGroupOutputs - 1) / kGroupOutputs; }  // 1..tile_groups
  int outputs_in(int tile) const {  // not counting padding
    return std::min(tile_groups * kGroupOutputs, out - tile * tile_groups * kGroupOutputs);
  }
  std::size_t tile_data(int tile) const { return static_cast<std::size_t>(tile * tile_groups) * group_bytes; }
  std::size_t bytes() const;

  int out, in;
  int block;  // inputs of a block; the last block may have fewer
  int blocks;
  int step_inputs;  // inputs of a line
  int tile_groups;
  std::size_t line_bytes;
  std::size_t block_bytes;        // bytes of one group's lines in a whole block
  std::size_t last_block_bytes;   // bytes of one group's lines in the last block
  std::size_t group_bytes;        // bytes of one group's lines and scales in all blocks
  std::size_t group_scale_bytes;  // bytes of one group's scales in one block
};

// Packs outputs [begin, end); begin is a multiple of a tile's outputs.
void pack_linear(const WeightView& view, int tile_groups, Fp8Order order, int begin, int end, std::byte* packed);

// Packs integer codes (WeightFormat::kCodes) into lines (kernels/cpu/linear/linear_layout.h).

// Packs tile `tile`, to `to`.
void pack_codes_tile(const WeightView& view, const LinearLayout& layout, int tile, std::byte* to);

// Packs tile `tile` of transposed codes (WeightFormat::kTransposedCodes), to `to`.
void pack_transposed_codes_tile(const WeightView& view, const LinearLayout& layout, int tile, std::byte* to);

}  // namespace sluice
