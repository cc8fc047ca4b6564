// A kernel of linears (kernels/cpu/kernel_list.h) for one format by multiply-adds. It computes outputs [begin, end) of
// a job; begin is a multiple of a tile's outputs, or with one row of a group's. Inputs in bf16 are widened first.
// Used by kernels/cpu/linear.
#pragma once

#include "kernels/cpu/linear/linear_direct.h"
#include "kernels/cpu/linear/linear_panel.h"
#include "kernels/cpu/linear/tiles.h"
#include "kernels/weights/linear_inputs.h"

namespace sluice::cpu::SLUICE_ISA {

// Returns the rows of a job, widened to f32 in the thread's scratch.
template <class Isa>
LinearJob widened_job(const LinearJob& job, int rows) {
  const int in = job.weight->in();
  float* to = thread_scratch(static_cast<std::size_t>(rows) * static_cast<std::size_t>(in));
  LinearJob wide = job;
  wide.x = to, wide.ldx = in, wide.x_rows = nullptr;
  for (int r = 0; r < rows; ++r) widen_inputs(in, job.x_row(r), to + std::ptrdiff_t{r} * in);
  return wide;
}

template <class Isa, class Format>
void run_few(const LinearJob& any_job, int rows, int begin, int end) {
  const LinearJob job = any_job.weight->input_form() == InputForm::kF32 ? any_job : widened_job<Isa>(any_job, rows);
  const LinearLayout layout(job.weight->view(), Isa::kTileGroups);
  run_direct<Isa, Format, FmaArithmetic<typename Isa::Vec>>(layout, job, rows, begin, end);
}

// The kernel for many rows, by panels; for blocks of at most kPanelInputs inputs.
template <class Isa, class Format>
void run_many(const LinearJob& any_job, int rows, int begin, int end) {
  if constexpr (Format::kRows.panel_from > 0) {  // if 0, no kernel table uses it
    static_assert(Format::kRows.panel_from > Isa::kPanelRows);
    const LinearJob job = any_job.weight->input_form() == InputForm::kF32 ? any_job : widened_job<Isa>(any_job, rows);
    const LinearLayout layout(job.weight->view(), Isa::kTileGroups);
    const TileRange tiles(Isa::kTileGroups, begin, end);
    LinearPanels<Isa, Format, FmaArithmetic<typename Isa::Vec>>::run(layout, job, rows, tiles.first, tiles.last);
  }
}

}  // namespace sluice::cpu::SLUICE_ISA

// Defines the functions `name`, for few rows of a Format (kernels/cpu/linear/linear_tile.h), and name_panels, for many.
#define SLUICE_LINEAR_FORMAT(name, Format)                                 \
  void name(const LinearJob& job, int rows, int begin, int end) {          \
    run_few<LinearIsa, Format>(job, rows, begin, end);                     \
  }                                                                        \
  void name##_panels(const LinearJob& job, int rows, int begin, int end) { \
    run_many<LinearIsa, Format>(job, rows, begin, end);                    \
  }

// Lists both functions as kernels, for the weights `of` and the inputs `with`.
#define SLUICE_LINEAR_KERNELS(name, rows, of, with)                                                     \
  SLUICE_LINEAR(name##_panels, of, with, .rows_from = (rows).panel_from, .block_inputs = kPanelInputs), \
      SLUICE_LINEAR(name, of, with, .any_group = true)
