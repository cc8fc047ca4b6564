// project: all products of one input, y = W x in the order of kernels/ops/linear.h, and the work on each product:
//   y[t] = W x[t];  with a bias:  y[t] = y[t] + bias;  with an addend:  y[t] = y[t] + addend[t / shared];
//   with a norm:  y[t] is RMS-normed (rms_norm of kernels/ops/elementwise.h) over its out values;
//   then the input forms of y (kernels/ops/rows.h) for which the caller gave memory are made.
// A product may have several weights of one shape (the heads of latent attention, the groups of an output projection).
// Weight i reads part i of x, or part 0 if x has one part only, and writes y + i * y_step.
// Shapes: x [rows, parts, in], y [rows, out] for each weight. No y overlaps x, or another y.
// Used by model, model/decoder, model/deepseek_mla and model/deepseek_v4.
#pragma once

#include <array>
#include <span>

#include "base/check.h"
#include "base/threads/pool_meter.h"
#include "kernels/device/exec.h"
#include "kernels/ops/linear.h"
#include "kernels/ops/rows.h"
#include "kernels/weights/input_forms.h"

namespace sluice {

struct Product {
  std::span<const LinearWeight> weights;
  Rows y;
  std::ptrdiff_t y_step = 0;
  const float* bias = nullptr;    // [out]; only with one weight; y is contiguous
  const float* addend = nullptr;  // [rows / shared, out]; only with one weight; y is contiguous
  int shared = 1;                 // consecutive rows that share one row of the addend
  const float* norm = nullptr;    // [out]; only with one weight
  float norm_eps = 0.0F;
};

struct ProjectArgs {
  static constexpr int kMostProducts = 8;

  int rows = 0;
  Rows x = {};
  StepStage stage = StepStage::kDense;  // the stage that the products' time counts for (base/threads/pool_meter.h)
  int count = 0;
  std::array<Product, kMostProducts> products{};

  ProjectArgs& add(const Product& product) {
    SLUICE_CHECK(count < kMostProducts, "more products of one input than a call takes");
    products[static_cast<std::size_t>(count++)] = product;
    return *this;
  }
  ProjectArgs& add(const LinearWeight& weight, const Rows& y) { return add({.weights = {&weight, 1}, .y = y}); }
  // Returns the input forms that the products read; the op that writes x should make them.
  InputForms forms() const {
    InputForms forms;
    for (int i = 0; i < count; ++i) forms.add(products[static_cast<std::size_t>(i)].weights.front());
    return forms;
  }
};
void project(const Exec& exec, const ProjectArgs& args);

// y = W x.
inline void project(const Exec& exec, int rows, const Rows& x, const LinearWeight& weight, const Rows& y) {
  project(exec, ProjectArgs{.rows = rows, .x = x}.add(weight, y));
}

}  // namespace sluice
