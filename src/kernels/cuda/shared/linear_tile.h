// A tile of a product, some outputs of some rows, by one team, in the order of kernels/linear.h.
//
// The inputs of a row are taken in pieces of whole blocks, which the team brings into shared memory in the form that
// the weight multiplies. With a piece it goes through its outputs, some at a time. A thread computes blocks of
// kLinearOutputs neighbouring outputs for all rows: each is a chain, or a sum of integers, of its own. Then a thread
// for each output and row adds the blocks of the piece in ascending order.
#pragma once

#include <cmath>
#include <limits>

#include "base/number_formats.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/linear_layout.h"
#include "kernels/cuda/shared/words.h"
#include "kernels/linear_inputs.h"

namespace sluice::SLUICE_CUDA_OPS {

inline constexpr int kLinearThreads = 128;

// 32 inputs as kernels/linear_inputs.h has them, the codes in the order of the inputs.
struct alignas(16) QuantizedInputs {
  float scale;
  std::int32_t unused[3];
  std::uint32_t codes[8];
};

// How a tile is cut: fixed by the host, which knows how much shared memory it takes.
struct LinearCut {
  int rows = 1;     // at most, a template argument of the kernel
  int piece = 0;    // blocks whose inputs lie in shared memory at once
  int outputs = 0;  // whose blocks' sums lie there at once, a multiple of kLinearOutputs
  int parts = 1;    // of a tile: so often `outputs`
  bool int8 = false;

  SLUICE_HD static constexpr int input_stride(int block) { return (block + 3) / 4 * 4 + 4; }  // no bank conflicts
  SLUICE_HD int partial_stride() const { return piece | 1; }
  SLUICE_HD int input_floats(int block) const { return rows * piece * input_stride(block); }
  SLUICE_HD int quantized(int block) const { return int8 ? rows * ((piece * block + 31) / 32) : 0; }
  std::size_t shared_bytes(int block) const {
    const int partials = (rows + 1) * outputs * partial_stride() + rows * parts * outputs;
    return static_cast<std::size_t>(quantized(block)) * sizeof(QuantizedInputs) +
           static_cast<std::size_t>(input_floats(block) + partials) * sizeof(float);
  }
};
inline constexpr int kLinearOutputs = 2;

// The scale of a block and, of integer codes, its minimum.
struct BlockScale {
  float scale, min;
};
SLUICE_DEVICE BlockScale block_scale(const CudaLinear& w, const std::byte* data, int n, int b) {
  const std::byte* at = data + w.scales_at + static_cast<std::size_t>(n) * w.scale_row_bytes;
  const auto* halves = reinterpret_cast<const f16*>(at);
  const auto* floats = reinterpret_cast<const float*>(at);
  switch (w.scale_kind) {
    case CudaScaleKind::kE8m0:
      return {e8m0_to_float(static_cast<std::uint8_t>(at[b])), 0.0F};
    case CudaScaleKind::kF32:
      return {floats[b], 0.0F};
    case CudaScaleKind::kF32Min:
      return {floats[2 * b], floats[2 * b + 1]};
    case CudaScaleKind::kF16:
      return {to_float(halves[b]), 0.0F};
    case CudaScaleKind::kF16Min:
      return {to_float(halves[2 * b]), to_float(halves[2 * b + 1])};
    default:
      return {1.0F, 0.0F};
  }
}

// The formats where inputs are floats: kWords words are kInputs weights; with kLater the scale meets a block's sum.
struct F32Weights {
  static constexpr int kWords = 2, kInputs = 2;
  static constexpr bool kLater = true;
  static SLUICE_DEVICE void expand(const CudaLinear&, const BlockScale&, const std::uint32_t* words, float* out) {
    out[0] = std::bit_cast<float>(words[0]);
    out[1] = std::bit_cast<float>(words[1]);
  }
};
struct Bf16Weights {
  static constexpr int kWords = 1, kInputs = 2;
  static constexpr bool kLater = true;
  static SLUICE_DEVICE void expand(const CudaLinear&, const BlockScale&, const std::uint32_t* words, float* out) {
    expand_bf16(words[0], out);
  }
};
template <bool kScaleLater>
struct Fp8Weights {
  static constexpr int kWords = 1, kInputs = 4;
  static constexpr bool kLater = kScaleLater;
  static SLUICE_DEVICE void expand(const CudaLinear&, const BlockScale& scale, const std::uint32_t* words, float* out) {
    expand_e4m3(words[0], out);
    if constexpr (!kLater) {
      for (int i = 0; i < kInputs; ++i) out[i] *= scale.scale;
    }
  }
};
struct Mxfp4Weights {
  static constexpr int kWords = 1, kInputs = 8;
  static constexpr bool kLater = true;
  static SLUICE_DEVICE void expand(const CudaLinear&, const BlockScale&, const std::uint32_t* words, float* out) {
    expand_e2m1(words[0], out);
  }
};
template <bool kNibbles>
struct CodeWeights {
  static constexpr int kWords = 1, kInputs = kNibbles ? 8 : 4;
  static constexpr bool kLater = false;
  static SLUICE_DEVICE void expand(const CudaLinear& w, const BlockScale& scale, const std::uint32_t* words,
                                   float* out) {
    const bool min = w.scale_kind == CudaScaleKind::kF16Min || w.scale_kind == CudaScaleKind::kF32Min;
    SLUICE_UNROLL
    for (int i = 0; i < kInputs; ++i) {
      const int code = kNibbles ? static_cast<int>(words[0] >> (4 * i) & 15U) + w.lowest
                                : static_cast<std::int8_t>(words[0] >> (8 * i));
      out[i] = scale.scale * static_cast<float>(code);
      if (min) out[i] += scale.min;
    }
  }
};

template <class Weights, int kRows, class XRow, class YRow>
class LinearTile {
 public:
  static constexpr int kThreads = kLinearThreads;
  static constexpr int kAhead = 2;  // pieces of a block that a thread reads before it multiplies them

  // `data`: the packed weight, of the layout of `w`.
  SLUICE_DEVICE LinearTile(const Team<kThreads>& team, const CudaLinear& w, const std::byte* data, const LinearCut& cut,
                           InputForm form, bool prepared, const XRow& x_row, const YRow& y_row)
      : team_(team), w_(w), data_(data), cut_(cut), form_(form), prepared_(prepared), x_row_(x_row), y_row_(y_row) {
    quantized_ = reinterpret_cast<QuantizedInputs*>(team.shared);
    inputs_ = reinterpret_cast<float*>(quantized_ + cut.quantized(w.block));
    partials_ = inputs_ + cut.input_floats(w.block);
    scales_ = partials_ + kRows * cut.outputs * cut.partial_stride();
    sums_ = scales_ + cut.outputs * cut.partial_stride();
  }

  // The tile's outputs from `begin` on as far as there are such, of rows [0, rows), kRows at most.
  SLUICE_DEVICE void run(int begin, int rows) {
    const int of_tile = cut_.parts * cut_.outputs, all = w_.out - begin < of_tile ? w_.out - begin : of_tile;
    team_.each([&](int t) {
      for (int i = t; i < kRows * of_tile; i += kThreads) sums_[i] = 0.0F;
    });
    for (int first = 0; first < w_.blocks; first += cut_.piece) {
      const int blocks = w_.blocks - first < cut_.piece ? w_.blocks - first : cut_.piece;
      team_.sync();
      read_inputs(first, blocks, rows);
      for (int from = 0; from < all; from += cut_.outputs) {
        const int outputs = all - from < cut_.outputs ? all - from : cut_.outputs;
        team_.sync();
        team_.each([&](int t) {
          const int items = (outputs + kLinearOutputs - 1) / kLinearOutputs * blocks;
          for (int item = t; item < items; item += kThreads) {
            const int b = item % blocks, n = item / blocks * kLinearOutputs;
            add_block(first, b, begin + from, n);
          }
        });
        team_.sync();
        add_partials(blocks, rows, outputs, sums_ + from);
      }
    }
    team_.sync();
    team_.each([&](int t) {
      for (int i = t; i < rows * all; i += kThreads) {
        const int r = i / all, n = i % all;
        y_row_(r)[begin + n] = sums_[r * of_tile + n];
      }
    });
  }

 private:
  SLUICE_DEVICE int stride() const { return LinearCut::input_stride(w_.block); }

  // Rows that are not there are zeros, and so is what lies behind the last input.
  SLUICE_DEVICE void read_inputs(int first, int blocks, int rows) {
    const int begin = first * w_.block, count = blocks * w_.block;
    const float inverse = 1.0F / static_cast<float>(w_.block);
    if (prepared_ && form_ == InputForm::kInt8) return copy_quantized(begin, count, rows);
    team_.each([&](int t) {
      for (int r = 0; r < kRows; ++r) {
        const float* x = r < rows ? x_row_(r) : nullptr;
        const auto value_of = [&](int k) {
          if (x == nullptr || begin + k >= w_.in) return 0.0F;
          if (prepared_) return to_float(reinterpret_cast<const bf16*>(x)[begin + k]);
          return form_ == InputForm::kBf16 ? round_to_bf16(x[begin + k]) : x[begin + k];
        };
        float* to = inputs_ + r * cut_.piece * stride();
        SLUICE_UNROLL_8
        for (int k = t; k < count; k += kThreads) {
          const int block = static_cast<int>((static_cast<float>(k) + 0.5F) * inverse);
          to[block * stride() + k - block * w_.block] = value_of(k);
        }
      }
    });
    if (prepared_) return;
    if (form_ == InputForm::kFp8) round_to_fp8(count, rows, inverse);
    if (form_ == InputForm::kInt8) quantize(count, rows, inverse);
  }

  SLUICE_DEVICE float& input(int r, int k, float inverse) const {
    const int block = static_cast<int>((static_cast<float>(k) + 0.5F) * inverse);
    return inputs_[r * cut_.piece * stride() + block * stride() + k - block * w_.block];
  }

  // As kernels/plane.h simulates kMlaFp8, then to bf16, where it is exact. Pieces begin at multiples of 128 inputs.
  SLUICE_DEVICE void round_to_fp8(int count, int rows, float inverse) {
    constexpr int kBlock = 128;
    team_.sync();
    team_.each([&](int t) {
      const int groups = (count + kBlock - 1) / kBlock;
      for (int i = t; i < rows * groups; i += kThreads) {
        const int r = i / groups, from = i % groups * kBlock, to = from + kBlock < count ? from + kBlock : count;
        float largest = 1e-4F;
        for (int k = from; k < to; ++k) {
          const float value = std::fabs(input(r, k, inverse));
          largest = value > largest ? value : largest;
        }
        const float scale = pow2_ceil(largest * (1.0F / 448.0F));
        for (int k = from; k < to; ++k) {
          float& x = input(r, k, inverse);
          x = round_to_bf16(e4m3_to_float(float_to_e4m3(x / scale)) * scale);
        }
      }
    });
  }

  SLUICE_DEVICE void quantize(int count, int rows, float inverse) {
    team_.sync();
    team_.each([&](int t) {
      const int groups = (count + 31) / 32;
      for (int i = t; i < rows * groups; i += kThreads) {
        const int r = i / groups, from = i % groups * 32;
        std::int32_t largest = 0;
        for (int k = from; k < from + 32 && k < count; ++k) {
          const std::int32_t bits = std::bit_cast<std::int32_t>(input(r, k, inverse)) & INT32_MAX;
          largest = bits > largest ? bits : largest;
        }
        const QuantizedScale scale = quantized_scale(largest);
        QuantizedInputs& to = quantized_row(r)[i % groups];
        to.scale = scale.scale;
        for (int word = 0; word < 8; ++word) {
          std::uint32_t codes = 0;
          for (int j = 0; j < 4 && scale.inverse != 0.0F; ++j) {
            const int k = from + 4 * word + j;
            const float x = k < count ? input(r, k, inverse) : 0.0F;
            const std::int32_t code =
                std::bit_cast<std::int32_t>(x * scale.inverse + kQuantizedMagic) - kQuantizedMagicBits;
            codes |= (static_cast<std::uint32_t>(code) & 0xFFU) << (8 * j);
          }
          to.codes[word] = codes;
        }
      }
    });
  }

  // From blocks whose codes lie as 0 4 1 5 2 6 3 7; pieces begin at whole ones.
  SLUICE_DEVICE void copy_quantized(int begin, int count, int rows) {
    team_.each([&](int t) {
      const int groups = (count + 31) / 32;
      for (int i = t; i < rows * groups; i += kThreads) {
        const int r = i / groups, group = i % groups;
        const QuantizedBlock& from = reinterpret_cast<const QuantizedBlock*>(x_row_(r))[begin / 32 + group];
        const auto* words = reinterpret_cast<const std::uint32_t*>(from.codes);
        QuantizedInputs& to = quantized_row(r)[group];
        to.scale = from.scale;
        SLUICE_UNROLL
        for (int word = 0; word < 8; word += 2) {
          to.codes[word] = byte_perm(words[word], words[word + 1], 0x6420);
          to.codes[word + 1] = byte_perm(words[word], words[word + 1], 0x7531);
        }
      }
    });
  }

  SLUICE_DEVICE QuantizedInputs* quantized_row(int r) const {
    return quantized_ + r * ((cut_.piece * w_.block + 31) / 32);
  }

  SLUICE_DEVICE const Chunk* chunk(int n, int block, int c) const {
    const std::byte* row = data_ + static_cast<std::size_t>(n) * w_.row_bytes;
    return reinterpret_cast<const Chunk*>(row) + c * w_.blocks + block;
  }

  // Block `b` of the piece that begins at block `first`, of outputs n, n + 1, ... of those from `begin`.
  SLUICE_DEVICE void add_block(int first, int b, int begin, int n) {
    int rows[kLinearOutputs];
    BlockScale scales[kLinearOutputs];
    SLUICE_UNROLL
    for (int u = 0; u < kLinearOutputs; ++u) {
      rows[u] = begin + n + u < w_.out ? begin + n + u : w_.out - 1;
      scales[u] = block_scale(w_, data_, rows[u], first + b);
    }
    float sums[kLinearOutputs][kRows];
    if constexpr (Weights::kWords == 0) {
      multiply_integers(first, b, rows, scales, sums);
    } else {
      const int count = w_.in - (first + b) * w_.block;
      if (count >= w_.chunks * (4 / Weights::kWords * Weights::kInputs)) {
        multiply<true>(first, b, 0, rows, scales, sums);
      } else {
        multiply<false>(first, b, count < w_.block ? count : w_.block, rows, scales, sums);
      }
    }
    SLUICE_UNROLL
    for (int u = 0; u < kLinearOutputs; ++u) {
      const int at = (n + u) * cut_.partial_stride() + b;
      scales_[at] = Weights::kLater ? scales[u].scale : 1.0F;
      SLUICE_UNROLL
      for (int r = 0; r < kRows; ++r) partials_[r * cut_.outputs * cut_.partial_stride() + at] = sums[u][r];
    }
  }

  // The chains of a block, which is whole chunks (kWhole) or has `count` inputs.
  template <bool kWhole>
  SLUICE_DEVICE void multiply(int first, int b, int count, const int* rows, const BlockScale* scales,
                              float (*sums)[kRows]) const {
    for (int u = 0; u < kLinearOutputs; ++u) {
      for (int r = 0; r < kRows; ++r) sums[u][r] = 0.0F;
    }
    for (int c = 0; c < w_.chunks; c += kAhead) {
      Chunk chunks[kAhead][kLinearOutputs];
      SLUICE_UNROLL
      for (int a = 0; a < kAhead; ++a) {
        const int of_block = c + a < w_.chunks ? c + a : c;
        SLUICE_UNROLL
        for (int u = 0; u < kLinearOutputs; ++u) chunks[a][u] = *chunk(rows[u], first + b, of_block);
      }
      SLUICE_UNROLL
      for (int a = 0; a < kAhead; ++a) {
        if (c + a < w_.chunks) multiply_chunk<kWhole>(b, c + a, count, chunks[a], scales, sums);
      }
    }
  }

  template <bool kWhole>
  SLUICE_DEVICE void multiply_chunk(int b, int c, int count, const Chunk* chunks, const BlockScale* scales,
                                    float (*sums)[kRows]) const {
    SLUICE_UNROLL
    for (int word = 0; word < 4; word += Weights::kWords) {
      const int k = (c * 4 + word) / Weights::kWords * Weights::kInputs;
      if (!kWhole && k >= count) break;
      float weights[kLinearOutputs][Weights::kInputs];
      SLUICE_UNROLL
      for (int u = 0; u < kLinearOutputs; ++u) Weights::expand(w_, scales[u], chunks[u].words + word, weights[u]);
      SLUICE_UNROLL
      for (int r = 0; r < kRows; ++r) {
        constexpr std::size_t kAlignment = Weights::kInputs % 4 == 0 ? 16 : 8;
        const auto* of_row = static_cast<const float*>(
            __builtin_assume_aligned(inputs_ + (r * cut_.piece + b) * stride() + k, kAlignment));
        SLUICE_UNROLL
        for (int i = 0; i < Weights::kInputs; i += 2) {
          SLUICE_UNROLL
          for (int u = 0; u < kLinearOutputs; ++u) {
            if (kWhole || k + i + 1 < count) sums[u][r] = std::fma(of_row[i + 1], weights[u][i + 1], sums[u][r]);
            if (kWhole || k + i < count) sums[u][r] = std::fma(of_row[i], weights[u][i], sums[u][r]);
          }
        }
      }
    }
  }

  // What meets the scales of the inputs: the sum of a block's products times the scale of its weights.
  SLUICE_DEVICE void multiply_integers(int first, int b, const int* rows, const BlockScale* scales,
                                       float (*sums)[kRows]) const {
    const int offset = b * w_.block % 32 / 4;  // a block of 16 inputs may be the second half of the 32
    SLUICE_UNROLL
    for (int u = 0; u < kLinearOutputs; ++u) {
      std::int32_t products[kRows] = {}, codes[kRows] = {};
      for (int c = 0; c < w_.chunks; ++c) {
        const Chunk weights = *chunk(rows[u], first + b, c);
        SLUICE_UNROLL
        for (int word = 0; word < 4; ++word) {
          std::uint32_t bytes[2];
          const int count = Weights::expand(weights.words[word], bytes);
          SLUICE_UNROLL
          for (int r = 0; r < kRows; ++r) {
            const QuantizedInputs& x = quantized_row(r)[b * w_.block / 32];
            for (int i = 0; i < count; ++i) {
              const std::uint32_t x_codes = x.codes[offset + (c * 4 + word) * count + i];
              products[r] = dot4(x_codes, bytes[i], products[r]);
              if (Weights::kSums) codes[r] = dot4(x_codes, 0x01010101U, codes[r]);
            }
          }
        }
      }
      SLUICE_UNROLL
      for (int r = 0; r < kRows; ++r) sums[u][r] = Weights::product(w_, scales[u], products[r], codes[r]);
    }
  }

  SLUICE_DEVICE void add_partials(int blocks, int rows, int outputs, float* sums) {
    team_.each([&](int t) {
      for (int i = t; i < rows * outputs; i += kThreads) {
        const int r = i / outputs, n = i % outputs;
        const float* partials = partials_ + (r * cut_.outputs + n) * cut_.partial_stride();
        float& sum = sums[r * cut_.parts * cut_.outputs + n];
        float y = sum;
        for (int b = 0; b < blocks; ++b) {
          const float scale =
              cut_.int8 ? quantized_row(r)[b * w_.block / 32].scale : scales_[n * cut_.partial_stride() + b];
          y = std::fma(partials[b], scale, y);
        }
        sum = y;
      }
    });
  }

  const Team<kThreads>& team_;
  const CudaLinear& w_;
  const std::byte* const data_;
  const LinearCut& cut_;
  const InputForm form_;
  const bool prepared_;  // rows of x are in that form already
  const XRow& x_row_;
  const YRow& y_row_;
  QuantizedInputs* quantized_;
  float* inputs_;    // [kRows][piece][stride]
  float* partials_;  // [kRows][outputs][partial_stride]
  float* scales_;    // [outputs][partial_stride]
  float* sums_;      // [kRows][parts * outputs]: y so far
};

// The formats where inputs are int8 codes.
struct Mxfp4Integers {
  static constexpr int kWords = 0;
  static constexpr bool kLater = false, kSums = false;
  static SLUICE_DEVICE int expand(std::uint32_t word, std::uint32_t* out) {
    out[0] = doubled_e2m1(word);
    out[1] = doubled_e2m1(word >> 16);
    return 2;
  }
  static SLUICE_DEVICE float product(const CudaLinear&, const BlockScale& scale, std::int32_t products, std::int32_t) {
    const float half = scale.scale * 0.5F, offset = kQuantizedMagic * half;
    if (!(std::fabs(offset) < std::numeric_limits<float>::infinity())) return std::numeric_limits<float>::quiet_NaN();
    return std::fma(kQuantizedMagic + static_cast<float>(products), half, -offset);
  }
};
template <bool kNibbles>
struct CodeIntegers {
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
  static SLUICE_DEVICE float product(const CudaLinear& w, const BlockScale& scale, std::int32_t products,
                                     std::int32_t codes) {
    if constexpr (kNibbles) products += w.lowest * codes;
    const float product =
        std::fma(kQuantizedMagic + static_cast<float>(products), scale.scale, -(kQuantizedMagic * scale.scale));
    const bool min = w.scale_kind == CudaScaleKind::kF16Min || w.scale_kind == CudaScaleKind::kF32Min;
    return min ? std::fma(static_cast<float>(codes), scale.min, product) : product;
  }
};

}  // namespace sluice::SLUICE_CUDA_OPS
