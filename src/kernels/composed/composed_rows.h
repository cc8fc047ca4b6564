// Helpers of composed ops: making the forms of rows just written, and products of rows in the form that each weight
// multiplies.
// Used by kernels/composed, kernels/cpu, kernels/cuda/shared and kernels/cuda/sm90.
#pragma once

#include <algorithm>
#include <vector>

#include "kernels/ops/elementwise.h"
#include "kernels/ops/indexer.h"
#include "kernels/ops/linear.h"
#include "kernels/ops/project.h"
#include "kernels/ops/residual.h"
#include "kernels/ops/rows.h"
#include "kernels/ops/store_kv.h"
#include "kernels/weights/input_forms.h"
#include "kernels/weights/linear_inputs.h"

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

// Writes the RMS norm of x to y, and makes those forms of y that have memory. May run in place.
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

// True if heads are normed in a separate pass before they are rotated.
inline bool norms_apart(const HeadForm& form) {
  return form.eps >= 0.0F && (form.norm != nullptr || form.rope.table == nullptr);
}
inline RopeHeadsArgs rotation_of(const HeadForm& form, int rows, int heads, int head_dim, float* x, std::ptrdiff_t ldx,
                                 const Position* positions) {
  return {.rows = rows,
          .heads = heads,
          .head_dim = head_dim,
          .rope_dims = form.rope.dims,
          .offset = form.rope.offset,
          .x = x,
          .ldx = ldx,
          .positions = positions,
          .table = form.rope.table,
          .norm_eps = norms_apart(form) ? -1.0F : form.eps,
          .half_split = form.rope.half_split};
}
// Norms and rotates heads [rows, heads, head_dim] in place. positions: [rows].
inline void form_heads(const Exec& exec, const HeadForm& form, int rows, int heads, int head_dim, float* x,
                       std::ptrdiff_t ldx, const Position* positions) {
  if (norms_apart(form)) rms_norm(exec, {rows * heads, head_dim, x, head_dim, form.norm, form.eps, x, head_dim});
  if (form.rope.table != nullptr) rope_heads(exec, rotation_of(form, rows, heads, head_dim, x, ldx, positions));
}

// Parts of composed ops that a device can combine in another way (kernels/cpu/composed_ops.cc). For project():
// products_of() replaces the contents of `jobs` by its products; finish_product() does the work that follows a product,
// for `rows` rows.
void products_of(const ProjectArgs& args, std::vector<LinearJob>& jobs);
void finish_product(const Exec& exec, int rows, const Product& product);

// For store_kv(), in this order: finds where a kind's rows are in the step; pools its windows; writes some of its rows,
// which begin at kind.x; does all these steps for a kind.
struct PlacedRows {
  int first = 0, rows = 0;  // the kind's rows [first, first + rows)
  const Position* positions = nullptr;
  const RowSlot* slots = nullptr;

  PlacedRows part(int begin, int count) const {
    return {first + begin, std::min(count, rows - begin), positions + begin, slots + begin};
  }
};
PlacedRows placed_rows(const StepTables& step, int ratio);
void pool_windows(const Exec& exec, const StepTables& step, const KvRows& kind);
void store_rows(const Exec& exec, const KvRows& kind, const PlacedRows& placed);
void store(const Exec& exec, const StepTables& step, const KvRows& kind);

// For index_select(): rotates, rounds and scales the queries and weights of rows [begin, end).
void form_index_queries(const Exec& exec, const IndexSelectArgs& args, int begin, int end);

}  // namespace sluice::composed
