// LinearKernels::run for one format: outputs [begin, end) of a job, begin a multiple of a tile's outputs.
#pragma once

#include "kernels/cpu/linear_direct.inc.h"
#include "kernels/cpu/linear_panel.inc.h"

namespace sluice::cpu {

template <class Isa, class Format>
void run_linear(const LinearJob& job, int rows, int begin, int end) {
  constexpr int kTileOutputs = Isa::kTileGroups * kGroupOutputs;
  const LinearLayout layout(job.weight->view(), Isa::kTileGroups);
  const int first_tile = begin / kTileOutputs;
  const int last_tile = (end + kTileOutputs - 1) / kTileOutputs;
  using Arithmetic = FmaArithmetic<typename Isa::Vec>;
  if constexpr (Format::kPanelFrom > 0) {
    static_assert(Format::kPanelFrom > Isa::kPanelRows);
    if (rows >= Format::kPanelFrom && layout.block <= kPanelInputs) {
      return LinearPanels<Isa, Format, Arithmetic>::run(layout, job, rows, first_tile, last_tile);
    }
  }
  run_direct<Isa, Format, Arithmetic>(layout, job, rows, first_tile, last_tile);
}

}  // namespace sluice::cpu
