// Used by kernels and model.
#include "kernels/weights/linear_inputs.h"

#include <vector>

#include "base/formats/number_formats.h"
#include "kernels/ops/plane.h"

namespace sluice {

void quantize_block(int count, const float* x, QuantizedBlock& block) {
  float padded[kQuantizedInputs] = {};
  std::copy_n(x, count, padded);
  std::int32_t largest = 0;
  for (const float value : padded) largest = std::max(largest, std::bit_cast<std::int32_t>(value) & INT32_MAX);
  const QuantizedScale scale = quantized_scale(largest);
  block.scale = scale.scale;
  if (scale.inverse == 0.0F) return clear_codes(block);
  std::int32_t codes[kQuantizedInputs];
  std::int32_t sums[2] = {};
  for (int i = 0; i < kQuantizedInputs; ++i) {
    codes[i] = std::bit_cast<std::int32_t>(padded[i] * scale.inverse + kQuantizedMagic) - kQuantizedMagicBits;
    sums[i / 16] += codes[i];
  }
  set_sums(sums[0], sums[1], block);
  for (int i = 0; i < kQuantizedInputs; ++i) {
    const auto at = static_cast<std::size_t>(i % 8);
    block.codes[i] = static_cast<std::int8_t>(codes[i / 8 * 8 + kQuantizedOrder[at]]);
  }
}

void prepare_bf16_inputs(int count, const float* x, std::uint16_t* to) {
  for (int i = 0; i < count; ++i) to[i] = to_bf16(x[i]).bits;
  if (count % 2 != 0) to[count] = 0x8000;
}

namespace {

// Rounds activations as the official inference does (docs/models/deepseek_v4.md §11.2): e4m3 under one power of two for
// 128 inputs, kMlaFp8's rule. All of the result is exact in bf16.
void prepare_fp8_inputs(int count, const float* x, std::uint16_t* to) {
  thread_local std::vector<float> rounded;
  rounded.assign(x, x + count);
  simulate_row(RowCodec::kMlaFp8, count, 0, rounded.data());
  prepare_bf16_inputs(count, rounded.data(), to);
}

}  // namespace

void prepare_inputs(InputForm form, int count, const float* x, float* to) {
  if (form == InputForm::kBf16 || form == InputForm::kTiles) {
    return prepare_bf16_inputs(count, x, reinterpret_cast<std::uint16_t*>(to));
  }
  if (form == InputForm::kFp8) return prepare_fp8_inputs(count, x, reinterpret_cast<std::uint16_t*>(to));
  auto* block = reinterpret_cast<QuantizedBlock*>(to);
  for (int i = 0; i < count; i += kQuantizedInputs, ++block) {
    quantize_block(std::min(kQuantizedInputs, count - i), x + i, *block);
  }
}

}  // namespace sluice
