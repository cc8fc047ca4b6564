// Inputs of products: the rows of a job, and inputs in the form that a weight multiplies. linear() and experts() share
// them.
//
//   kF32          as they are
//   kBf16, kFp8, kTiles
//                 contiguous bf16 values, an even number: -0 after the last of an odd count
//   kInt8         contiguous QuantizedBlocks, one for 32 inputs of a row; the last may be part empty
// Used by kernels and model.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "base/host_device.h"
#include "kernels/ops/linear.h"
#include "kernels/weights/tile_inputs.h"

namespace sluice {

inline constexpr int kQuantizedInputs = 32;

// 32 inputs x of a row as x = scale * codes. With a = max |x|: scale = a / 127, codes = x * (127 / a) rounded to the
// nearest, ties to even. An input that is not finite makes the scale NaN, and so everything computed from it.
struct QuantizedBlock {
  float scale;
  std::int32_t start;      // kQuantizedMagic's bits less 12 sum: the start of a sum of products with MXFP4
  std::int32_t sum;        // the sum of the codes
  std::int32_t upper_sum;  // the sum of the codes of inputs 16 to 31
  // Eight inputs after the other, each eight as 0 4 1 5 2 6 3 7: the order of the nibbles in a packed MXFP4 line.
  std::int8_t codes[kQuantizedInputs];
};
static_assert(sizeof(QuantizedBlock) == 48);

inline constexpr std::array<int, 8> kQuantizedOrder = {0, 4, 1, 5, 2, 6, 3, 7};

inline constexpr float kQuantizedMagic = 12582912.0F;  // 1.5 * 2^23: a float added to it is rounded to an integer

struct QuantizedScale {
  float scale, inverse;  // inverse 0: the codes are 0
};
// Returns the scale for the bits of the largest magnitude of a block.
SLUICE_HD inline QuantizedScale quantized_scale(std::int32_t largest) {
  // Below it 127 / a would not be finite. The block counts as zero, as a denormal does.
  constexpr float kSmallest = 0x1p-120F;
  if (largest >= 0x7F800000) return {std::numeric_limits<float>::quiet_NaN(), 0.0F};
  const float a = std::bit_cast<float>(largest);
  return a >= kSmallest ? QuantizedScale{a / 127.0F, 127.0F / a} : QuantizedScale{0.0F, 0.0F};
}
inline constexpr std::int32_t kQuantizedMagicBits = std::bit_cast<std::int32_t>(kQuantizedMagic);
// The sums of the codes of inputs 0 to 15 and of the others.
inline void set_sums(std::int32_t lower, std::int32_t upper, QuantizedBlock& block) {
  block.sum = lower + upper;
  block.upper_sum = upper;
  block.start = kQuantizedMagicBits - 12 * block.sum;
}
inline void clear_codes(QuantizedBlock& block) {
  set_sums(0, 0, block);
  std::fill_n(block.codes, kQuantizedInputs, std::int8_t{0});
}

// Quantises inputs [0, count) of a block; the inputs past them are 0.
void quantize_block(int count, const float* x, QuantizedBlock& block);

void prepare_bf16_inputs(int count, const float* x, std::uint16_t* to);

// Returns the form with the same values that kernels without a special order for `form` multiply.
inline InputForm values_form(InputForm form) {
  return form == InputForm::kFp8Blocks ? InputForm::kFp8 : form;
}

// The number of floats that `in` inputs of a row occupy.
inline int input_floats(InputForm form, int in) {
  constexpr int kBlockFloats = sizeof(QuantizedBlock) / sizeof(float);
  if (form == InputForm::kF32) return in;
  return form == InputForm::kInt8 ? (in + kQuantizedInputs - 1) / kQuantizedInputs * kBlockFloats : (in + 1) / 2;
}

// A row may be prepared in pieces that begin at multiples of this many inputs.
inline int input_block(InputForm form) {
  return form == InputForm::kFp8 ? 128 : form == InputForm::kInt8 ? kQuantizedInputs : 2;
}

// Writes inputs [0, count) of a row in a form that is not kF32; `to` is where their form begins. This is the
// definition; LinearKernels::prepare gives the same.
void prepare_inputs(InputForm form, int count, const float* x, float* to);

// Writes x, `in` inputs in a form of bf16 values, as floats.
inline void widen_inputs(int in, const float* x, float* to) {
  const auto* from = reinterpret_cast<const std::uint16_t*>(x);
  for (int i = 0; i < in; ++i) to[i] = std::bit_cast<float>(static_cast<std::uint32_t>(from[i]) << 16);
}

// Returns `job` without its first `first` rows.
[[gnu::always_inline]] inline LinearJob rows_from(const LinearJob& job, int first) {
  LinearJob rest = job;
  if (job.x_tiles != nullptr) {  // tiles can be cut at whole blocks of rows only
    rest.x_tiles += tile_line_at(first, 0, job.weight->in());
  } else if (job.x_rows != nullptr) {
    rest.x_rows += first;
  } else {
    rest.x += first * job.ldx;
  }
  rest.y += first * job.ldy;
  return rest;
}

}  // namespace sluice
