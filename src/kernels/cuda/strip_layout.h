// The layout of the weights of linears whose inputs are bf16 for the kernels of the profile sm90, and the order of
// their products.
//
// The order of y = W x, whatever the number of rows, their place and the kernel (tests/gpu/strips_test.cu):
//   inputs are taken in steps of 16, ascending; a step is one tensor-core instruction m16n8k16 of bf16 on compute
//     capability 9.0, which adds 16 products to an f32 sum. After the last input come zeros, to a multiple of 64;
//   a chain of steps from 0 is a segment;   y = fma(segment, scale, y) over the segments in ascending order, y from 0.
//   bf16, and MXFP4 and FP8 with e8m0 scales: the scale is in the weight, which is a bf16 value then, and scale = 1.
//     MXFP4, and 8,192 outputs or more: one segment. Others: min(8, ceil(in / 512)) segments of equally many cells of
//     64 inputs, the last maybe shorter. A share of a weight's outputs has the segments of the whole weight.
//   FP8 with f32 scales: a segment is what one scale covers.
// A scale of e8m0 above 2 (MXFP4) or 128 (FP8) counts as infinite: such weights occur in no trained model, and show in
// every output. If one of the FP8 weights of a scale is NaN, a scale of e8m0 counts as infinite, too, and one of f32
// becomes NaN.
//
// The layout: a strip is 16 outputs, and a cell is 16 outputs x 64 inputs in the order of the instruction's registers.
// Lane l of a warp has rows g = l / 4 and g + 8 and, in step j of a cell, inputs 16j + 2t, + 1, + 8, + 9, t = l % 4.
// Register r is the pair at row fragment_row(l, r), inputs fragment_input(l, j, r) and the next. Weights are
// [strip][cell], and a cell is
//   bf16    2,048 bytes: [step][lane] four registers
//   fp8     1,024 bytes: [step / 2][lane] two words a step: registers 0 and 1, then 2 and 3;
//           the even register's pair in bytes 1 and 3, the odd one's in bytes 0 and 2
//   mxfp4   512 bytes: [lane] a word a step (strip_e2m1_word())
// With mxfp4 four cells, the last ones maybe zeros, are a piece. Their scales follow them, so that one copy brings
// both: [cell][g] four bytes: row g's of inputs 0-31 and 32-63 of the cell, then row g + 8's; e8m0 + 126. After all
// strips lie the scales of fp8, [strip][...]:
//   fp8, e8m0     [block][g] two bytes: rows g and g + 8; e8m0 + 120
//   fp8, f32      [block][row] f32
// Used by kernels/cuda, kernels/cuda/runtime and kernels/cuda/sm90.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/host_device.h"
#include "kernels/ops/linear.h"

namespace sluice {

enum class StripKind { kBf16, kFp8, kFp8Scaled, kMxfp4 };

inline constexpr int kStripOutputs = 16, kCellInputs = 64, kCellSteps = 4, kMostSegments = 8, kWideOutputs = 8192;
inline constexpr int kFp4PieceCells = 4, kFp4CellBytes = 512, kFp4CellScaleBytes = 32;
inline constexpr int kFp4PieceScalesAt = kFp4PieceCells * kFp4CellBytes,
                     kFp4PieceBytes = kFp4PieceScalesAt + kFp4PieceCells * kFp4CellScaleBytes;
// Return the offsets of an mxfp4 cell and of its scales from the strip's first byte.
SLUICE_HD constexpr int fp4_cell_at(int cell) {
  return cell / kFp4PieceCells * kFp4PieceBytes + cell % kFp4PieceCells * kFp4CellBytes;
}
SLUICE_HD constexpr int fp4_scales_at(int cell) {
  return cell / kFp4PieceCells * kFp4PieceBytes + kFp4PieceScalesAt + cell % kFp4PieceCells * kFp4CellScaleBytes;
}

// Plain values, arguments of kernels.
struct StripLinear {
  StripLinear() = default;
  explicit StripLinear(const WeightView& view);  // takes(view) is true
  // True if its format has strips. Other weights are packed by cuda_linear_packing().
  static bool takes(const WeightView& view);

  std::size_t bytes() const { return scales_at + static_cast<std::size_t>(strips) * strip_scale_bytes; }
  int padded_in() const { return cells * kCellInputs; }

  StripKind kind = StripKind::kBf16;
  int out = 0, in = 0, strips = 0, cells = 0;
  int segment_cells = 0, segments = 0;
  int scale_cells = 1;  // for fp8: this many cells share a scale
  std::size_t cell_bytes = 0, strip_bytes = 0, scales_at = 0, strip_scale_bytes = 0;
};

// Packs weights whose inputs are bf16 in strips if StripLinear takes them; all others as cuda_linear_packing().
const LinearPacking& sm90_linear_packing();

SLUICE_HD constexpr int fragment_row(int lane, int r) {
  return lane / 4 + 8 * (r % 2);
}
SLUICE_HD constexpr int fragment_input(int lane, int step, int r) {
  return 16 * step + 2 * (lane % 4) + 8 * (r / 2);
}

// The registers of a step, two bf16 values each, from a word: e2m1 times 2^-126, or e4m3 times 2^-120 (`odd`: for the
// odd register). Small ones are bf16 denormals, which the multiplication that follows reads as they are.
SLUICE_HD constexpr std::uint32_t strip_e2m1(std::uint32_t word, int r) {
  constexpr std::uint32_t kMask = 0x81C081C0U;
  if (r == 0) return word & kMask;
  if (r == 1) return (word << 4) & kMask;
  if (r == 2) return (word >> 6 | word << 26) & kMask;
  return ((word << 6) & 0x80C080C0U) | ((word >> 2) & 0x01000100U);
}
SLUICE_HD constexpr std::uint32_t strip_e4m3(std::uint32_t word, bool odd) {
  if (odd) word <<= 8;
  return (word & 0x80008000U) | ((word >> 4) & 0x07F007F0U);
}
// Returns the word of the codes of a step: pairs [register][even input, odd input].
constexpr std::uint32_t strip_e2m1_word(const std::uint8_t (&codes)[4][2]) {
  std::uint32_t word = 0;
  for (int half = 0; half < 2; ++half) {
    const auto put = [&](int r, int bit, int at, int of_half) {
      word |= static_cast<std::uint32_t>(codes[r][half] >> bit & 1) << (at + 16 * of_half);
    };
    // Bits of a code: m is the mantissa, e the exponent, s the sign.
    constexpr int kPlaces[4][4] = {{6, 7, 8, 15}, {2, 3, 4, 11}, {12, 13, 14, 5}, {0, 1, 10, 9}};
    for (int r = 0; r < 4; ++r) {
      for (int bit = 0; bit < 4; ++bit) put(r, bit, kPlaces[r][bit], r == 2 && bit == 3 ? 1 - half : half);
    }
  }
  return word;
}

}  // namespace sluice
