// What linear() and experts() share: the rows of a job, and inputs in the form that a weight multiplies.
//
//   kF32    as they are
//   kBf16   rounded to bf16, as floats
//   kInt8   QuantizedBlocks, one for 32 inputs of a row, side by side; the last may be part empty
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>

#include "base/number_formats.h"
#include "kernels/linear.h"

namespace sluice {

inline constexpr int kQuantizedInputs = 32;

// 32 inputs x of a row as x = scale * codes. With a = max |x|: scale = a / 127, codes = x * (127 / a) rounded to the
// nearest, ties to even. Inputs that are not finite make the scale NaN, and so whatever is computed from them.
struct QuantizedBlock {
  float scale;
  std::int32_t start;  // the bits of 12582912.0f less 12 times the sum of the codes: where a sum of products begins
  // Eight inputs after the other, each as 0 4 1 5 2 6 3 7: as the nibbles lie in a packed MXFP4 line.
  std::int8_t codes[kQuantizedInputs];
};
static_assert(sizeof(QuantizedBlock) == 40);

inline constexpr std::array<int, 8> kQuantizedOrder = {0, 4, 1, 5, 2, 6, 3, 7};

// Inputs [0, count) of a block; those past them are 0.
inline void quantize_block(int count, const float* x, QuantizedBlock& block) {
  alignas(64) float padded[kQuantizedInputs] = {};
  std::copy_n(x, count, padded);
  std::int32_t largest = 0;
  for (const float value : padded) largest = std::max(largest, std::bit_cast<std::int32_t>(value) & INT32_MAX);
  const float a = std::bit_cast<float>(largest);
  const bool finite = largest < 0x7F800000;
  // Below it 127 / a would not be finite. The block counts as zero, as a denormal does.
  constexpr float kSmallest = 0x1p-120F;
  const float inverse = finite && a >= kSmallest ? 127.0F / a : 0.0F;
  block.scale = !finite ? std::numeric_limits<float>::quiet_NaN() : a >= kSmallest ? a / 127.0F : 0.0F;
  // Adding 1.5 * 2^23 leaves the rounded value in the low bits.
  constexpr std::int32_t kMagicBits = 0x4B400000;
  alignas(64) std::int32_t codes[kQuantizedInputs];
  std::int32_t sum = 0;
  for (int i = 0; i < kQuantizedInputs; ++i) {
    codes[i] = std::bit_cast<std::int32_t>(padded[i] * inverse + 12582912.0F) - kMagicBits;
  }
  if (!finite) std::fill_n(codes, kQuantizedInputs, 0);
  for (const std::int32_t code : codes) sum += code;
  block.start = kMagicBits - 12 * sum;
  for (int i = 0; i < kQuantizedInputs; ++i) {
    const auto at = static_cast<std::size_t>(i % 8);
    block.codes[i] = static_cast<std::int8_t>(codes[i / 8 * 8 + kQuantizedOrder[at]]);
  }
}

// Floats that `in` inputs of a row take.
inline int input_floats(InputForm form, int in) {
  constexpr int kBlockFloats = sizeof(QuantizedBlock) / sizeof(float);
  return form == InputForm::kInt8 ? (in + kQuantizedInputs - 1) / kQuantizedInputs * kBlockFloats : in;
}

// Inputs [0, count) of a row; `to` is where their form begins, for kInt8 at the start of a block.
inline void prepare_inputs(InputForm form, int count, const float* x, float* to) {
  if (form == InputForm::kBf16) {
    for (int i = 0; i < count; ++i) to[i] = round_to_bf16(x[i]);
  } else {
    auto* block = reinterpret_cast<QuantizedBlock*>(to);
    for (int i = 0; i < count; i += kQuantizedInputs, ++block) {
      quantize_block(std::min(kQuantizedInputs, count - i), x + i, *block);
    }
  }
}

// `job` without its first `first` rows.
inline LinearJob rows_from(const LinearJob& job, int first) {
  LinearJob rest = job;
  if (job.x_rows != nullptr) {
    rest.x_rows += first;
  } else {
    rest.x += first * job.ldx;
  }
  rest.y += first * job.ldy;
  return rest;
}

// out [rows, input_floats(form, in)]: the job's inputs in `form`, which is not kF32.
inline void prepare_rows(const Exec& exec, int rows, int in, const LinearJob& job, InputForm form, float* out) {
  constexpr int kFloatsPerPiece = 64 << 10;
  const int step = std::max(1, kFloatsPerPiece / std::max(in, 1));
  auto prepare = [&](int piece, int) {
    for (int r = piece * step; r < std::min(rows, (piece + 1) * step); ++r) {
      prepare_inputs(form, in, job.x_row(r), out + static_cast<std::ptrdiff_t>(r) * input_floats(form, in));
    }
  };
  exec.pool->run((rows + step - 1) / step, std::ref(prepare));
}

}  // namespace sluice
