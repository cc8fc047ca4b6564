// What composed ops share: making the forms of rows just written, and products of rows in the form that each weight
// multiplies.
#pragma once

#include "kernels/elementwise.h"
#include "kernels/input_forms.h"
#include "kernels/linear.h"
#include "kernels/linear_inputs.h"
#include "kernels/residual.h"
#include "kernels/rows.h"

namespace sluice::composed {

// Makes the forms of `rows` that have memory.
inline void make_forms(const Exec& exec, int count, const Rows& rows) {
  for (const InputForm form : kPreparedForms) {
    if (rows.form(form) == nullptr) continue;
    const int width = input_floats(form, rows.columns);
    for (int part = 0; part < rows.parts; ++part) {
      prepare_rows(exec, {form, count, rows.columns, rows.values + part * rows.part_step, rows.ld,
                          rows.form(form) + std::ptrdiff_t{part} * width, std::ptrdiff_t{rows.parts} * width});
    }
  }
}

// y = the RMS norm of x, and its forms that have memory. May run in place.
inline void norm_to(const Exec& exec, int count, const float* x, std::ptrdiff_t ldx, const float* norm, float eps,
                    const Rows& y) {
  norm_inputs(exec, {{count, y.columns, x, ldx, norm, eps, y.values, y.ld}, y});
}

// y = weight * (part `part` of x).
inline LinearJob product_of(const LinearWeight& weight, const Rows& x, int part, float* y, std::ptrdiff_t ldy) {
  const InputForm form = weight.input_form();
  const int width = input_floats(form, weight.in());
  if (form != InputForm::kF32 && x.form(form) != nullptr) {
    return {.weight = &weight,
            .x = x.form(form) + std::ptrdiff_t{part} * width,
            .ldx = std::ptrdiff_t{x.parts} * width,
            .y = y,
            .ldy = ldy,
            .x_prepared = true};
  }
  return {.weight = &weight, .x = x.values + part * x.part_step, .ldx = x.ld, .y = y, .ldy = ldy};
}

// Heads [rows, heads, head_dim], normed and rotated in place. positions: [rows].
inline void form_heads(const Exec& exec, const HeadForm& form, int rows, int heads, int head_dim, float* x,
                       std::ptrdiff_t ldx, const Position* positions) {
  const bool weighted = form.eps >= 0.0F && (form.norm != nullptr || form.rope.table == nullptr);
  if (weighted) rms_norm(exec, {rows * heads, head_dim, x, head_dim, form.norm, form.eps, x, head_dim});
  if (form.rope.table == nullptr) return;
  rope_heads(exec, {.rows = rows,
                    .heads = heads,
                    .head_dim = head_dim,
                    .rope_dims = form.rope.dims,
                    .offset = form.rope.offset,
                    .x = x,
                    .ldx = ldx,
                    .positions = positions,
                    .table = form.rope.table,
                    .norm_eps = weighted ? -1.0F : form.eps,
                    .half_split = form.rope.half_split});
}

}  // namespace sluice::composed
