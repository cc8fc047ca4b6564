// add_norm: between two sub-layers of a plain residual stream, adds the output of the last one and RMS-norms the sum
// for the next.
//   y not null:    x[t] = x[t] + y[t]
//   norm not null: normed[i] = rms_norm(x[t], norm, eps), as in kernels/ops/elementwise.h, for every row t = i, or, if
//                  only.data() is not null, t = only[i]; then the forms of `normed` that have memory are made
// Shapes: x, y [rows, dim] contiguous; normed [rows or only.size(), dim], no part of x or y.
// Used by model/deepseek_mla/mtp.cc, model/deepseek_v4/mtp.cc and model/residual_stream.cc.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/device/exec.h"
#include "kernels/ops/elementwise.h"
#include "kernels/ops/rows.h"

namespace sluice {

struct AddNormArgs {
  int rows = 0, dim = 0;
  float* x = nullptr;
  const float* y = nullptr;
  const float* norm = nullptr;  // [dim]
  float eps = 0.0F;
  Rows normed = {};
  std::span<const std::int32_t> only = {};
};
void add_norm(const Exec& exec, const AddNormArgs& args);

// Norms rows and makes the forms of the results, in one pass: rms_norm() of `norm`, whose y and ldy are those of `y`;
// then the forms of y that have memory.
struct NormInputsArgs {
  RmsNormArgs norm = {};
  Rows y = {};
};
void norm_inputs(const Exec& exec, const NormInputsArgs& args);

}  // namespace sluice
