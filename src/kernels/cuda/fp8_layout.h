// The layout of FP8 weights and of their inputs for the kernels of the profile `sm90 --compute-dtype fp8`, and the
// order of their products.
//
// The order of y = W x, whatever the number of rows, their place and the kernel (tests/gpu/fp8_test.cu):
//   blocks of 128 inputs, ascending; those past the last input count as zero. x of a block is e4m3 codes times a
//     scale s_x, a power of two: s_x = pow2_ceil(max(max |x|, 1e-4) / 448), the codes are x / s_x rounded to the
//     nearest, as in official inference (docs/models/deepseek_v4.md §11.2);
//   a block's sum is a chain from 0 of four steps of 32 inputs, ascending; a step is one instruction
//     wgmma.m64nNk32.f32.e4m3.e4m3 of compute capability 9.0, which adds 32 products of codes to an f32 sum as the
//     hardware does: with about 14 bits. mma.sync on the same codes differs there: the compiler makes it of f16,
//     and its sums have other bits;
//   y = fma(sum, s_w * s_x, y) over the blocks, from 0. s_w is the weight's scale, of 128 inputs or a multiple; the
//     product is rounded to f32.
//
// The layout of a weight: a tile is 64 outputs, [tile][block] 8,192 bytes. These are the instruction's operand: rows of
// 128 bytes, whose piece i of 16 bytes lies at piece i ^ (row % 8) (fp8_byte()). After all tiles lie the
// scales: for each [tile][block] four of f32, one for 16 outputs each. Outputs that the weight does not have are zeros.
// The layout of rows: [block][row] 128 bytes in the same order. The rows are padded to a multiple of 8, so that any
// rows from a multiple of 8 on are an operand. Their scales are an array of their own, [block][row] f32.
// Used by kernels/cuda, kernels/cuda/runtime and kernels/cuda/sm90.
#pragma once

#include <cstddef>

#include "base/host_device.h"
#include "kernels/ops/linear.h"

namespace sluice {

inline constexpr int kFp8Outputs = 64, kFp8Inputs = 128, kFp8ScaleOutputs = 16, kFp8RowAlignment = 8;
inline constexpr int kFp8TileBytes = kFp8Outputs * kFp8Inputs, kFp8TileScales = kFp8Outputs / kFp8ScaleOutputs;

// Plain values, arguments of kernels.
struct Fp8Linear {
  Fp8Linear() = default;
  explicit Fp8Linear(const WeightView& view);  // takes(view) is true
  // True for FP8 whose scales cover whole blocks of 128 inputs and whole sixteens of outputs.
  static bool takes(const WeightView& view);

  std::size_t bytes() const {
    return scales_at + static_cast<std::size_t>(tiles) * static_cast<std::size_t>(blocks) * kFp8TileScales * 4;
  }

  int out = 0, in = 0, tiles = 0, blocks = 0;
  std::size_t scales_at = 0;
};

// The packing of sm90_linear_packing(), but weights that multiply InputForm::kFp8Blocks have the layout above if
// Fp8Linear takes them.
const LinearPacking& sm90_fp8_linear_packing();

// Returns where input `k` of row `row` of an operand lies, k < 128.
SLUICE_HD constexpr int fp8_byte(int row, int k) {
  return row * kFp8Inputs + (k / 16 ^ row % 8) * 16 + k % 16;
}

}  // namespace sluice
