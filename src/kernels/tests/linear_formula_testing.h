// The products of linear.h, word for word, for comparison.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/formats/block_codes.h"
#include "base/formats/number_formats.h"
#include "kernels/device/cpu_features.h"
#include "kernels/ops/linear.h"
#include "kernels/ops/plane.h"
#include "kernels/weights/linear_inputs.h"

namespace sluice::linear_formula {

// A row of inputs in the form that a product wants: rounded, or for kInt8 integers with a scale for 32.
struct Inputs {
  std::vector<float> values, scales;
  std::vector<bool> zero;  // blocks of 32

  Inputs(const float* x, int count, InputForm form) : values(x, x + count) {
    if (form == InputForm::kFp8) simulate_row(RowCodec::kMlaFp8, count, 0, values.data());
    for (int begin = 0; form == InputForm::kInt8 && begin < count; begin += 32) {
      const int end = std::min(count, begin + 32);
      float largest = 0.0F;
      for (int k = begin; k < end; ++k) largest = std::fmax(largest, std::fabs(x[k]));
      zero.push_back(largest < 0x1p-120F);
      for (int k = begin; k < end; ++k) at(k) = zero.back() ? 0.0F : std::nearbyint(x[k] * (127.0F / largest));
      scales.push_back(zero.back() ? 0.0F : largest / 127.0F);
    }
    if (form == InputForm::kInt8 || form == InputForm::kF32) return;
    for (float& value : values) value = round_to_bf16(value);
  }
  float& at(int k) { return values[static_cast<std::size_t>(k)]; }
};

// y for inputs in int8, by the formula. The parts of an output are integer codes.
inline float expected_codes(const BlockCodes& form, const std::vector<CodedPart>& parts, const Inputs& x) {
  const float* code = x.values.data();
  float y = 0.0F;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const CodedPart& part = parts[p];
    float dot = 0.0F, sum = 0.0F;  // integers
    for (int k = 0; k < form.inputs; ++k, ++code) {
      dot += *code * static_cast<float>(part.codes[k]);
      sum += *code;
    }
    float product = dot * part.scale;
    if (form.min) product = std::fma(sum, part.min, product);
    y = std::fma(product, x.scales[p * static_cast<std::size_t>(form.inputs) / 32], y);
  }
  return y;
}

// The same for MXFP4, of the weights and their scales for 32.
inline float expected_int8(const std::vector<float>& weights, const std::vector<float>& scales, const Inputs& x) {
  float y = 0.0F;
  for (std::size_t block = 0; block < scales.size(); ++block) {
    if (x.zero[block]) continue;  // adds nothing
    float dot = 0.0F;             // an integer
    for (std::size_t k = 32 * block; k < std::min(weights.size(), 32 * block + 32); ++k) {
      dot += x.values[k] * (2.0F * weights[k]);
    }
    y = std::fma(dot * (scales[block] * 0.5F), x.scales[block], y);
  }
  return y;
}

// The order of linear.h, word for word: weights and inputs in blocks under a scale.
inline float expected_chain(const std::vector<float>& weights, const std::vector<float>& scales, std::size_t block,
                            const std::vector<float>& x) {
  float y = 0.0F;
  for (std::size_t begin = 0; begin < weights.size(); begin += block) {
    const std::size_t end = std::min(weights.size(), begin + block);
    float acc = 0.0F;
    for (std::size_t k = begin; k < end; k += 2) {
      if (k + 1 < end) acc = std::fma(x[k + 1], weights[k + 1], acc);
      acc = std::fma(x[k], weights[k], acc);
    }
    y = std::fma(acc, scales[begin / block], y);
  }
  return y;
}

// The order of tiles, word for word: blocks of `block` inputs, in each block 32 after the other, with their even and
// odd ones apart. Scales multiply the weights, or the sums of blocks.
inline float expected_tiles(std::vector<float> weights, const std::vector<float>& scales, std::size_t block,
                            bool of_sums, const std::vector<float>& x) {
  float y = 0.0F;
  for (std::size_t begin = 0; begin < weights.size(); begin += block) {
    const std::size_t end = std::min(weights.size(), begin + block);
    const float scale = scales[begin / block];
    float sum = of_sums ? 0.0F : y;
    for (std::size_t slice = begin; slice < end; slice += 32) {
      float even = 0.0F, odd = 0.0F;
      for (std::size_t k = slice; k < slice + 32; k += 2) {
        const auto product = [&](std::size_t i, float acc) {
          if (i >= end) return std::fma(0.0F, 0.0F, acc);
          return std::fma(x[i], of_sums ? weights[i] : weights[i] * scale, acc);
        };
        even = product(k, even);
        odd = product(k + 1, odd);
      }
      sum = sum + (even + odd);
    }
    y = of_sums ? std::fma(sum, scale, y) : sum;
  }
  return y + 0.0F;
}

// Output n, over view.element() and view.scale(), of each row.
inline std::vector<float> expected_output(const WeightView& view, const std::vector<Inputs>& rows, int n,
                                          InputForm form) {
  std::vector<float> y;
  if (view.format == WeightFormat::kCodes && form == InputForm::kInt8) {
    const BlockCodes codes = block_codes(view.codes);
    std::vector<CodedPart> parts(static_cast<std::size_t>(view.in / codes.inputs));
    for (std::size_t p = 0; p < parts.size(); ++p) {
      read_part(view.codes, view.data + static_cast<std::size_t>(n) * view.row_bytes(), p, parts[p]);
    }
    for (const Inputs& x : rows) y.push_back(expected_codes(codes, parts, x));
    return y;
  }
  const bool prescaled = form == InputForm::kF32 && view.scale_format == ScaleFormat::kF32;
  const int block = form == InputForm::kInt8 ? 32 : view.block_inputs();
  std::vector<float> weights(static_cast<std::size_t>(view.in)), scales;
  if (view.format == WeightFormat::kCodes) view.read(n, 0, view.in, weights.data());
  for (int k = 0; k < view.in; ++k) {
    if (k % block == 0) scales.push_back(prescaled ? 1.0F : view.scale(n, k));
    if (view.format == WeightFormat::kCodes) continue;
    weights[static_cast<std::size_t>(k)] = prescaled ? view.element(n, k) * view.scale(n, k) : view.element(n, k);
  }
  for (const Inputs& x : rows) {
    if (form == InputForm::kTiles) {
      const bool of_sums = view.scale_format == ScaleFormat::kF32;
      y.push_back(expected_tiles(weights, scales, static_cast<std::size_t>(block), of_sums, x.values));
      continue;
    }
    y.push_back(form == InputForm::kInt8 ? expected_int8(weights, scales, x)
                                         : expected_chain(weights, scales, static_cast<std::size_t>(block), x.values));
  }
  return y;
}

// Rows 0.. of the result of Product for all `rows` rows of x.
inline std::vector<float> expected(const WeightView& view, const std::vector<float>& x, int rows, InputForm wanted) {
  FlushDenormals flush;
  const InputForm form = input_form(wanted, view.format);
  std::vector<Inputs> inputs;
  for (int r = 0; r < rows; ++r) inputs.emplace_back(x.data() + r * view.in, view.in, form);
  const auto ldy = static_cast<std::size_t>(view.out + 3);
  std::vector<float> y(ldy * static_cast<std::size_t>(rows), 7.0F);
  for (int n = 0; n < view.out; ++n) {
    const std::vector<float> of_rows = expected_output(view, inputs, n, form);
    for (std::size_t r = 0; r < of_rows.size(); ++r) y[r * ldy + static_cast<std::size_t>(n)] = of_rows[r];
  }
  return y;
}

}  // namespace sluice::linear_formula
