// Used by activation.cc, kernels/cpu/scalar/ref.cc, op_table.cc and ref_hyper_connection.cc.
#include "kernels/ref/ref_linear.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/formats/block_codes.h"
#include "kernels/ref/tile_order.h"
#include "kernels/weights/linear_inputs.h"

namespace sluice {

namespace {

float chain(const float* x, const float* w, int count) {
  float acc = 0.0F;
  for (int k = 0; k < count; k += 2) {
    if (k + 1 < count) acc = std::fma(x[k + 1], w[k + 1], acc);
    acc = std::fma(x[k], w[k], acc);
  }
  return acc;
}

// The place of input k's code among the eight codes of inputs.
constexpr std::array<int, 8> kPlaces = [] {
  std::array<int, 8> places{};
  for (int at = 0; at < 8; ++at) places[static_cast<std::size_t>(kQuantizedOrder[static_cast<std::size_t>(at)])] = at;
  return places;
}();

std::int32_t quantized_code(const QuantizedBlock& x, int k) {
  return x.codes[k / 8 * 8 + kPlaces[static_cast<std::size_t>(k % 8)]];
}

const QuantizedBlock& block_of(const LinearJob& job, int row, int begin) {
  return reinterpret_cast<const QuantizedBlock*>(job.x_row(row))[begin / kQuantizedInputs];
}

// Adds to output n of every row the block of inputs from `begin` on. The order of the product's integers does not
// matter (kernels/ops/linear.h).
void add_quantized(const LinearJob& job, int rows, int n, int begin) {
  const WeightView& view = job.weight->view();
  const int count = std::min(kQuantizedInputs, view.in - begin);
  float weights[kQuantizedInputs];
  view.values(n, begin, count, weights);
  const float half = view.scale(n, begin) * 0.5F;
  const float offset = 12582912.0F * half;
  for (int r = 0; r < rows; ++r) {
    const QuantizedBlock& x = block_of(job, r, begin);
    std::int32_t acc = 0;
    for (int k = 0; k < count; ++k) acc += quantized_code(x, k) * static_cast<std::int32_t>(2.0F * weights[k]);
    float& y = job.y[r * job.ldy + n];
    y = !std::isfinite(offset) ? std::numeric_limits<float>::quiet_NaN()
                               : std::fma(std::fma(12582912.0F + static_cast<float>(acc), half, -offset), x.scale, y);
  }
}

// Adds to output n of every row a part of integer codes: 32 or 16 inputs.
void add_codes(const LinearJob& job, int rows, int n, int begin) {
  const WeightView& view = job.weight->view();
  const BlockCodes form = block_codes(view.codes);
  CodedPart part;
  read_part(view.codes, view.data + static_cast<std::size_t>(n) * view.row_bytes(),
            static_cast<std::size_t>(begin / form.inputs), part);
  for (int r = 0; r < rows; ++r) {
    const QuantizedBlock& x = block_of(job, r, begin);
    std::int32_t acc = 0, sum = 0;
    for (int k = 0; k < form.inputs; ++k) {
      const std::int32_t code = quantized_code(x, begin % kQuantizedInputs + k);
      acc += code * part.codes[k];
      sum += code;
    }
    float product = std::fma(12582912.0F + static_cast<float>(acc), part.scale, -(12582912.0F * part.scale));
    if (form.min) product = std::fma(static_cast<float>(sum), part.min, product);
    float& y = job.y[r * job.ldy + n];
    y = std::fma(product, x.scale, y);
  }
}

void run_int8(const LinearJob& job, int rows, int begin, int end) {
  const WeightView& view = job.weight->view();
  const auto add = view.format == WeightFormat::kCodes ? add_codes : add_quantized;
  for (int n = begin; n < end; ++n) {
    for (int r = 0; r < rows; ++r) job.y[r * job.ldy + n] = 0.0F;
    for (int k = 0; k < view.in; k += view.block_inputs()) add(job, rows, n, k);
  }
}

// Returns the inputs of every row as floats, from a rounded input form.
std::vector<float> widened_inputs(const LinearJob& job, int rows, int in) {
  std::vector<float> x(static_cast<std::size_t>(rows) * static_cast<std::size_t>(in));
  for (int r = 0; r < rows; ++r) widen_inputs(in, job.x_row(r), x.data() + std::ptrdiff_t{r} * in);
  return x;
}

void run_tiles(const LinearJob& job, int rows, int begin, int end) {
  const WeightView& view = job.weight->view();
  const bool f32_scales = view.scale_format == ScaleFormat::kF32;
  std::vector<float> weights(static_cast<std::size_t>(view.in));
  const std::vector<float> widened = widened_inputs(job, rows, view.in);
  for (int n = begin; n < end; ++n) {
    f32_scales ? view.values(n, 0, view.in, weights.data()) : view.read(n, 0, view.in, weights.data());
    for (int r = 0; r < rows; ++r) {
      const float* x = widened.data() + std::ptrdiff_t{r} * view.in;
      float y = 0.0F;
      for (int k = 0; k < view.in; k += view.block_inputs()) {
        const int count = std::min(view.block_inputs(), view.in - k);
        const auto input = [&](int i) { return x[k + i]; };
        const auto w = [&](int i) { return weights[static_cast<std::size_t>(k + i)]; };
        y = f32_scales ? std::fma(ref::add_slices(input, w, count, 0.0F), view.scale(n, k), y)
                       : ref::add_slices(input, w, count, y);
      }
      job.y[r * job.ldy + n] = y + 0.0F;
    }
  }
}

}  // namespace

void scalar_linear(const LinearJob& job, int rows, int begin, int end) {
  if (job.weight->input_form() == InputForm::kInt8) return run_int8(job, rows, begin, end);
  if (job.weight->input_form() == InputForm::kTiles) return run_tiles(job, rows, begin, end);
  const WeightView& view = job.weight->view();
  const int block = view.block_inputs();
  const bool rounded = job.weight->input_form() != InputForm::kF32;
  const bool prescaled = !rounded && view.scale_format == ScaleFormat::kF32;
  std::vector<float> weights(static_cast<std::size_t>(std::min(block, view.in)));
  const std::vector<float> widened = rounded ? widened_inputs(job, rows, view.in) : std::vector<float>();
  const auto inputs = [&](int r) { return rounded ? widened.data() + std::ptrdiff_t{r} * view.in : job.x_row(r); };
  for (int n = begin; n < end; ++n) {
    for (int r = 0; r < rows; ++r) job.y[r * job.ldy + n] = 0.0F;
    for (int k = 0; k < view.in; k += block) {
      const int count = std::min(block, view.in - k);
      prescaled ? view.read(n, k, count, weights.data()) : view.values(n, k, count, weights.data());
      const float scale = prescaled ? 1.0F : view.scale(n, k);
      for (int r = 0; r < rows; ++r) {
        float& y = job.y[r * job.ldy + n];
        y = std::fma(chain(inputs(r) + k, weights.data(), count), scale, y);
      }
    }
  }
}

}  // namespace sluice
