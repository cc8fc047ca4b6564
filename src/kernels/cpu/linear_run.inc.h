// LinearKernels::run for one format: outputs [begin, end) of a job, begin a multiple of a tile's outputs. Inputs in
// bf16 are widened first.
#pragma once

#include "kernels/cpu/linear_direct.inc.h"
#include "kernels/cpu/linear_panel.inc.h"
#include "kernels/cpu/tiles.h"
#include "kernels/linear_inputs.h"

namespace sluice::cpu {

// The rows of a job, widened to f32 in the thread's scratch.
template <class Isa>
LinearJob widened_job(const LinearJob& job, int rows) {
  const int in = job.weight->in();
  float* to = thread_scratch(static_cast<std::size_t>(rows) * static_cast<std::size_t>(in));
  LinearJob wide = job;
  wide.x = to, wide.ldx = in, wide.x_rows = nullptr;
  for (int r = 0; r < rows; ++r) widen_inputs(in, job.x_row(r), to + std::ptrdiff_t{r} * in);
  return wide;
}

template <class Isa, class Format, class Arithmetic = FmaArithmetic<typename Isa::Vec>>
void run_linear(const LinearJob& any_job, int rows, int begin, int end) {
  const LinearJob job = any_job.weight->input_form() == InputForm::kF32 ? any_job : widened_job<Isa>(any_job, rows);
  constexpr int kTileOutputs = Isa::kTileGroups * kGroupOutputs;
  const LinearLayout layout(job.weight->view(), Isa::kTileGroups);
  const int first_tile = begin / kTileOutputs;
  const int last_tile = (end + kTileOutputs - 1) / kTileOutputs;
  if constexpr (Format::kPanelFrom > 0) {
    static_assert(Format::kPanelFrom > Isa::kPanelRows);
    if (rows >= Format::kPanelFrom && layout.block <= kPanelInputs) {
      return LinearPanels<Isa, Format, Arithmetic>::run(layout, job, rows, first_tile, last_tile);
    }
  }
  run_direct<Isa, Format, Arithmetic>(layout, job, rows, first_tile, last_tile);
}

}  // namespace sluice::cpu
