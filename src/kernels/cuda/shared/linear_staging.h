// The inputs of a product in shared memory, a piece of K at a time, in the form that the weight multiplies. They are
// made there, or copied if an op before has made them.
// Used by few_outputs.cu, linear_row.h and linear_tile.h.
#pragma once

#include <cmath>

#include "base/formats/number_formats.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/linear_layout.h"
#include "kernels/cuda/shared/words.h"
#include "kernels/weights/linear_inputs.h"

namespace sluice::SLUICE_CUDA_OPS {

// 32 inputs in the form of kernels/weights/linear_inputs.h, with the codes in the order of the inputs.
struct alignas(16) QuantizedInputs {
  float scale;
  std::int32_t unused[3];
  std::uint32_t codes[8];
};

// Floats from a block to the next one: neighbouring threads read neighbouring blocks without bank conflicts.
SLUICE_HD constexpr int input_stride(int block) {
  return (block + 3) / 4 * 4 + 4;
}

// Division of numbers that are not negative, with a product below 2^31.
class Divisor {
 public:
  SLUICE_DEVICE explicit Divisor(int by)
      : reciprocal_(((1U << 31) + static_cast<std::uint32_t>(by) - 1) / static_cast<std::uint32_t>(by)) {}
  SLUICE_DEVICE int of(int value) const {
    return static_cast<int>(static_cast<std::uint64_t>(value) * reciprocal_ >> 31);
  }

 private:
  std::uint32_t reciprocal_;
};

// The inputs of up to kRows rows, `piece` blocks of each. Rows that do not exist are -0, and so are values after the
// last input: times a weight of 0, -0 leaves a chain as it is.
template <int kThreads, int kRows, class XRow>
class StagedInputs {
 public:
  SLUICE_DEVICE StagedInputs(const Team<kThreads>& team, const CudaLinear& w, InputForm form, bool prepared,
                             const XRow& x_row, int piece, QuantizedInputs* quantized, float* floats)
      : team_(team),
        w_(w),
        form_(form),
        prepared_(prepared),
        x_row_(x_row),
        piece_(piece),
        quantized_(quantized),
        floats_(floats),
        by_block_(w.block) {}

  // Reads blocks [first, first + blocks) of `rows` rows.
  SLUICE_DEVICE void read(int first, int blocks, int rows) const {
    const int begin = first * w_.block, count = blocks * w_.block;
    if (prepared_ && form_ == InputForm::kInt8) return copy_quantized(begin, count, rows);
    team_.each([&](int t) {
      for (int r = 0; r < kRows; ++r) {
        const float* x = r < rows ? x_row_(r) : nullptr;
        const auto value_of = [&](int k) {
          if (x == nullptr || begin + k >= w_.in) return -0.0F;
          if (prepared_) return to_float(reinterpret_cast<const bf16*>(x)[begin + k]);
          return form_ == InputForm::kBf16 ? round_to_bf16(x[begin + k]) : x[begin + k];
        };
        if (w_.block % 4 != 0) {
          SLUICE_ROLLED
          for (int k = t; k < count; k += kThreads) input(r, k) = value_of(k);
          continue;
        }
        SLUICE_UNROLL_4
        for (int k = 4 * t; k < count; k += 4 * kThreads) {
          Four four;
          if (x != nullptr && begin + k + 3 < w_.in) {
            read_four(x, begin + k, four);
          } else {
            SLUICE_UNROLL
            for (int i = 0; i < 4; ++i) four.values[i] = value_of(k + i);
          }
          *reinterpret_cast<Four*>(&input(r, k)) = four;
        }
      }
    });
    if (prepared_) return;
    if (form_ == InputForm::kFp8) round_to_fp8(count, rows);
    if (form_ == InputForm::kInt8) quantize(count, rows);
  }

  SLUICE_DEVICE const float* block(int r, int b) const { return floats_ + (r * piece_ + b) * input_stride(w_.block); }
  SLUICE_DEVICE QuantizedInputs* quantized(int r) const { return quantized_ + r * ((piece_ * w_.block + 31) / 32); }

 private:
  struct alignas(16) Four {
    float values[4];
  };
  SLUICE_DEVICE void read_four(const float* x, int k, Four& four) const {
    if (prepared_) {
      const auto* words = reinterpret_cast<const std::uint32_t*>(x) + k / 2;
      expand_bf16(words[0], four.values);
      expand_bf16(words[1], four.values + 2);
      return;
    }
    SLUICE_UNROLL
    for (int i = 0; i < 4; ++i) four.values[i] = x[k + i];
    if (form_ != InputForm::kBf16) return;
    SLUICE_UNROLL
    for (float& value : four.values) value = round_to_bf16(value);
  }
  SLUICE_DEVICE float& input(int r, int k) const {
    const int b = by_block_.of(k);
    return floats_[(r * piece_ + b) * input_stride(w_.block) + k - b * w_.block];
  }

  // Rounds to e4m3 as simulate_rows() does with kMlaFp8 (kernels/ops/plane.h), then to bf16, which is exact. Pieces
  // begin at multiples of 128 inputs.
  SLUICE_DEVICE void round_to_fp8(int count, int rows) const {
    constexpr int kBlock = 128;
    team_.sync();
    team_.each([&](int t) {
      const int groups = (count + kBlock - 1) / kBlock;
      for (int i = t; i < rows * groups; i += kThreads) {
        const int r = i / groups, from = i % groups * kBlock, to = from + kBlock < count ? from + kBlock : count;
        float largest = 1e-4F;
        SLUICE_ROLLED
        for (int k = from; k < to; ++k) {
          const float value = std::fabs(input(r, k));
          largest = value > largest ? value : largest;
        }
        const float scale = pow2_ceil(largest * (1.0F / 448.0F));
        SLUICE_ROLLED
        for (int k = from; k < to; ++k) {
          float& x = input(r, k);
          x = round_to_bf16(e4m3_to_float(float_to_e4m3(x / scale)) * scale);
        }
      }
    });
  }

  SLUICE_DEVICE void quantize(int count, int rows) const {
    team_.sync();
    team_.each([&](int t) {
      const int groups = (count + 31) / 32;
      for (int i = t; i < rows * groups; i += kThreads) {
        const int r = i / groups, from = i % groups * 32;
        std::int32_t largest = 0;
        SLUICE_ROLLED
        for (int k = from; k < from + 32 && k < count; ++k) {
          const std::int32_t bits = std::bit_cast<std::int32_t>(input(r, k)) & INT32_MAX;
          largest = bits > largest ? bits : largest;
        }
        const QuantizedScale scale = quantized_scale(largest);
        QuantizedInputs& to = quantized(r)[i % groups];
        to.scale = scale.scale;
        SLUICE_ROLLED
        for (int word = 0; word < 8; ++word) {
          std::uint32_t codes = 0;
          for (int j = 0; j < 4 && scale.inverse != 0.0F; ++j) {
            const int k = from + 4 * word + j;
            const float x = k < count ? input(r, k) : 0.0F;
            const std::int32_t code =
                std::bit_cast<std::int32_t>(x * scale.inverse + kQuantizedMagic) - kQuantizedMagicBits;
            codes |= (static_cast<std::uint32_t>(code) & 0xFFU) << (8 * j);
          }
          to.codes[word] = codes;
        }
      }
    });
  }

  // Copies blocks whose codes lie in the order 0 4 1 5 2 6 3 7, into the order of the inputs. Pieces begin at whole
  // blocks.
  SLUICE_DEVICE void copy_quantized(int begin, int count, int rows) const {
    team_.each([&](int t) {
      const int groups = (count + 31) / 32;
      for (int i = t; i < rows * groups; i += kThreads) {
        const int r = i / groups, group = i % groups;
        const QuantizedBlock& from = reinterpret_cast<const QuantizedBlock*>(x_row_(r))[begin / 32 + group];
        const auto* words = reinterpret_cast<const std::uint32_t*>(from.codes);
        QuantizedInputs& to = quantized(r)[group];
        to.scale = from.scale;
        SLUICE_UNROLL
        for (int word = 0; word < 8; word += 2) {
          to.codes[word] = byte_perm(words[word], words[word + 1], 0x6420);
          to.codes[word + 1] = byte_perm(words[word], words[word + 1], 0x7531);
        }
      }
    });
  }

  const Team<kThreads>& team_;
  const CudaLinear& w_;
  const InputForm form_;
  const bool prepared_;  // rows of x are in the weight's input form already
  const XRow& x_row_;
  const int piece_;
  QuantizedInputs* const quantized_;  // [kRows][blocks of 32]
  float* const floats_;               // [kRows][piece][stride]
  const Divisor by_block_;
};

}  // namespace sluice::SLUICE_CUDA_OPS
