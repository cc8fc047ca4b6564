// The formats of packed weights (kernels/cuda/linear_layout.h): how words become the factors of a chain, or integers.
// Used by linear_row.h and linear_tile.h.
#pragma once

#include <cmath>
#include <limits>

#include "base/formats/number_formats.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/linear_layout.h"
#include "kernels/cuda/shared/words.h"
#include "kernels/weights/linear_inputs.h"

namespace sluice::SLUICE_CUDA_OPS {

// The scale of a block and, for integer codes, its minimum.
struct BlockScale {
  float scale, min;
};
// Returns the scale of block `b` of a row whose scales lie at `at`.
SLUICE_DEVICE BlockScale block_scale(const CudaLinear& w, const std::byte* at, int b) {
  const auto* halves = reinterpret_cast<const f16*>(at);
  const auto* floats = reinterpret_cast<const float*>(at);
  switch (w.scales) {
    case ScaleFormat::kE8m0:
      return {e8m0_to_float(static_cast<std::uint8_t>(at[b])), 0.0F};
    case ScaleFormat::kF32:
      if (w.min) return {floats[2 * b], floats[2 * b + 1]};
      return {floats[b], 0.0F};
    case ScaleFormat::kF16:
      if (w.min) return {to_float(halves[2 * b]), to_float(halves[2 * b + 1])};
      return {to_float(halves[b]), 0.0F};
    case ScaleFormat::kNone:
      break;
  }
  return {1.0F, 0.0F};
}

// kRowOutputs: the outputs whose blocks a thread computes at once if there is one row (linear_row.h).
//
// The formats for inputs of floats: kWords words are kInputs weights; with kLater the scale multiplies a block's sum.
struct F32Weights {
  static constexpr int kRowOutputs = 2;
  static constexpr int kWords = 2, kInputs = 2;
  static constexpr bool kLater = true;
  static SLUICE_DEVICE void expand(const CudaLinear&, const BlockScale&, const std::uint32_t* words, float* out) {
    out[0] = std::bit_cast<float>(words[0]);
    out[1] = std::bit_cast<float>(words[1]);
  }
};
struct Bf16Weights {
  static constexpr int kRowOutputs = 2;
  static constexpr int kWords = 1, kInputs = 2;
  static constexpr bool kLater = true;
  static SLUICE_DEVICE void expand(const CudaLinear&, const BlockScale&, const std::uint32_t* words, float* out) {
    expand_bf16(words[0], out);
  }
};
template <bool kScaleLater>
struct Fp8Weights {
  static constexpr int kRowOutputs = 2;
  static constexpr int kWords = 1, kInputs = 4;
  static constexpr bool kLater = kScaleLater;
  static SLUICE_DEVICE BlockScale scale(const CudaLinear&, const std::byte* at, int b) {
    return {reinterpret_cast<const float*>(at)[b], 0.0F};  // used if the scale multiplies each weight
  }
  static SLUICE_DEVICE void expand(const CudaLinear&, const BlockScale& scale, const std::uint32_t* words, float* out) {
    expand_e4m3(words[0], out);
    if constexpr (!kLater) {
      for (int i = 0; i < kInputs; ++i) out[i] *= scale.scale;
    }
  }
};
struct Mxfp4Weights {
  static constexpr int kRowOutputs = 4;
  static constexpr int kWords = 1, kInputs = 8;
  static constexpr bool kLater = true;
  static SLUICE_DEVICE void expand(const CudaLinear&, const BlockScale&, const std::uint32_t* words, float* out) {
    expand_e2m1(words[0], out);
  }
};
template <bool kNibbles>
struct CodeWeights {
  static constexpr int kRowOutputs = 2;
  static constexpr int kWords = 1, kInputs = kNibbles ? 8 : 4;
  static constexpr bool kLater = false;
  static SLUICE_DEVICE BlockScale scale(const CudaLinear& w, const std::byte* at, int b) {
    return block_scale(w, at, b);
  }
  static SLUICE_DEVICE void expand(const CudaLinear& w, const BlockScale& scale, const std::uint32_t* words,
                                   float* out) {
    SLUICE_UNROLL
    for (int i = 0; i < kInputs; ++i) {
      const int code = kNibbles ? static_cast<int>(words[0] >> (4 * i) & 15U) + w.lowest
                                : static_cast<std::int8_t>(words[0] >> (8 * i));
      out[i] = scale.scale * static_cast<float>(code);
      if (w.min) out[i] += scale.min;
    }
  }
};

// The formats for inputs of int8 codes.
struct Mxfp4Integers {
  static constexpr int kRowOutputs = 4;
  static constexpr int kWords = 0;
  static constexpr bool kLater = false, kSums = false;
  static SLUICE_DEVICE int expand(std::uint32_t word, std::uint32_t* out) {
    expand_doubled_e2m1(word, out);
    return 2;
  }
  static SLUICE_DEVICE BlockScale scale(const CudaLinear&, const std::byte* at, int b) {
    return {e8m0_to_float(static_cast<std::uint8_t>(at[b])), 0.0F};
  }
  static SLUICE_DEVICE float product(const CudaLinear&, const BlockScale& scale, std::int32_t products, std::int32_t) {
    const float half = scale.scale * 0.5F, offset = kQuantizedMagic * half;
    if (!(std::fabs(offset) < std::numeric_limits<float>::infinity())) return std::numeric_limits<float>::quiet_NaN();
    return std::fma(kQuantizedMagic + static_cast<float>(products), half, -offset);
  }
};
template <bool kNibbles>
struct CodeIntegers {
  static constexpr int kRowOutputs = 2;
  static constexpr int kWords = 0;
  static constexpr bool kLater = false, kSums = true;
  static SLUICE_DEVICE int expand(std::uint32_t word, std::uint32_t* out) {
    if constexpr (kNibbles) {
      expand_nibbles(word, out);
      return 2;
    }
    out[0] = word;
    return 1;
  }
  static SLUICE_DEVICE BlockScale scale(const CudaLinear& w, const std::byte* at, int b) {
    return block_scale(w, at, b);
  }
  static SLUICE_DEVICE float product(const CudaLinear& w, const BlockScale& scale, std::int32_t products,
                                     std::int32_t codes) {
    if constexpr (kNibbles) products += w.lowest * codes;
    const float product =
        std::fma(kQuantizedMagic + static_cast<float>(products), scale.scale, -(kQuantizedMagic * scale.scale));
    return w.min ? std::fma(static_cast<float>(codes), scale.min, product) : product;
  }
};

// True if the scale multiplies each weight instead of a block's sum.
inline bool scaled_first(const CudaLinear& weight, InputForm form) {
  return form == InputForm::kF32 && weight.scales == ScaleFormat::kF32 && !weight.min;
}

// Calls run(Weights{}) with the format of the kernel.
template <class Run>
void with_variant(const CudaLinear& weight, InputForm form, const Run& run) {
  const bool int8 = form == InputForm::kInt8;
  switch (weight.coding) {
    case Coding::kF32:
      return run(F32Weights{});
    case Coding::kBf16:
      return run(Bf16Weights{});
    case Coding::kE4m3:
      return scaled_first(weight, form) ? run(Fp8Weights<false>{}) : run(Fp8Weights<true>{});
    case Coding::kE2m1:
      return int8 ? run(Mxfp4Integers{}) : run(Mxfp4Weights{});
    case Coding::kInt4:
      return int8 ? run(CodeIntegers<true>{}) : run(CodeWeights<true>{});
    case Coding::kInt8:
      return int8 ? run(CodeIntegers<false>{}) : run(CodeWeights<false>{});
  }
}

}  // namespace sluice::SLUICE_CUDA_OPS
