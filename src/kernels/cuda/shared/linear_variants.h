// Which kernel multiplies a weight, and how its tiles are cut.
#pragma once

#include <algorithm>

#include "kernels/cuda/shared/linear_tile.h"

namespace sluice::SLUICE_CUDA_OPS {

inline constexpr int kManyRows = 8;  // of a tile, where a product has more than one

inline CudaLinear packed_linear(const LinearWeight& weight) {
  CudaLinear packed(weight.view());
  packed.data = weight.packed();
  SLUICE_CHECK(packed.bytes() == weight.packed_bytes(), "a weight packed by cuda_linear_packing()");
  return packed;
}

// Whether the scale multiplies each weight instead of a block's sum.
inline bool scaled_first(const CudaLinear& weight, InputForm form) {
  return form == InputForm::kF32 && weight.scale_kind == CudaScaleKind::kF32;
}

inline bool same_variant(const CudaLinear& a, const CudaLinear& b) {
  return a.kind == b.kind && (a.scale_kind == CudaScaleKind::kF32) == (b.scale_kind == CudaScaleKind::kF32);
}

// Calls run(Weights{}) with the format of the kernel.
template <class Run>
void with_variant(const CudaLinear& weight, InputForm form, const Run& run) {
  const bool int8 = form == InputForm::kInt8;
  switch (weight.kind) {
    case CudaWeightKind::kF32:
      return run(F32Weights{});
    case CudaWeightKind::kBf16:
      return run(Bf16Weights{});
    case CudaWeightKind::kFp8:
      return scaled_first(weight, form) ? run(Fp8Weights<false>{}) : run(Fp8Weights<true>{});
    case CudaWeightKind::kMxfp4:
      return int8 ? run(Mxfp4Integers{}) : run(Mxfp4Weights{});
    case CudaWeightKind::kCodes4:
      return int8 ? run(CodeIntegers<true>{}) : run(CodeWeights<true>{});
    case CudaWeightKind::kCodes8:
      return int8 ? run(CodeIntegers<false>{}) : run(CodeWeights<false>{});
  }
}

// Inputs of 4,096 floats lie in shared memory at once, of one row or of eight; each thread has something to do, and
// where there are many outputs, a tile more of them, for what the inputs cost.
inline LinearCut linear_cut(const CudaLinear& weight, InputForm form, int rows) {
  constexpr int kManyTiles = 1024, kMostPartials = 4096;
  LinearCut cut{.rows = rows == 1 ? 1 : kManyRows, .int8 = form == InputForm::kInt8};
  const int inputs = rows == 1 ? 4096 : 1024;
  cut.piece = std::min(weight.blocks, std::max(1, inputs / weight.block));
  cut.outputs = kLinearOutputs * std::max(1, kLinearThreads / cut.piece);
  while (weight.out / cut.outputs > kManyTiles && 2 * cut.outputs * cut.partial_stride() * cut.rows <= kMostPartials) {
    cut.outputs *= 2;
  }
  return cut;
}

}  // namespace sluice::SLUICE_CUDA_OPS
