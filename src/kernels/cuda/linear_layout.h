// The layout of weights of linears for CUDA kernels in the CPU's orders (kernels/ops/linear.h).
//
// A row (an output) is cut into blocks of `block` inputs, each a chain of its own, so that neighbouring threads have
// neighbouring blocks. A block is `chunks` pieces of 16 bytes, with zeros past its last input. A row is all blocks'
// first pieces, then all second ones, and so on: [row][chunk][block] 16 bytes. In a piece inputs ascend:
//   f32, bf16, fp8   as stored; transposed codes are f32 values
//   mxfp4            eight to a word: nibble i the magnitude of value i, bit 8i + 7 the sign of value i, bit 8i + 3
//                    that of value 4 + i
//   int4             two to a byte, the first in the low half; codes less the least one
//   int8             a byte each, signed; also codes whose numbers have 4 bits, and codes of parts of 16
// After the rows lie the scales, [row][block], a row in whole words: e8m0 bytes, f32, or those of integer codes, f16 or
// f32 (base/formats/block_codes.h), each followed by its minimum if the type has minima; nothing without scales. The
// scale of fp8 weights of which one is NaN is NaN, and without scales it is 1.
// Used by kernels/cuda, kernels/cuda/runtime, kernels/cuda/shared and kernels/cuda/sm90.
#pragma once

#include <cstddef>

#include "kernels/ops/linear.h"

namespace sluice {

// Plain values, arguments of kernels. `data` is null until the place of the packed bytes is known.
struct CudaLinear {
  explicit CudaLinear(const WeightView& view);
  CudaLinear() = default;

  std::size_t bytes() const { return scales_at + static_cast<std::size_t>(out) * scale_row_bytes; }

  const std::byte* data = nullptr;
  std::size_t row_bytes = 0, scales_at = 0, scale_row_bytes = 0;
  Coding coding = Coding::kF32;  // the packed coding: of the weight's trait, or what packing turns it into
  ScaleFormat scales = ScaleFormat::kNone;
  bool min = false;  // a minimum follows each scale
  int out = 0, in = 0, block = 0, blocks = 0, chunks = 0;
  int lowest = 0;  // for kInt4: the code that a nibble of 0 stands for
};

// Packing, on the host.
const LinearPacking& cuda_linear_packing();

}  // namespace sluice
