// Compiled for avx2 and avx512.
// Weights without scales.
#include "kernels/cpu/kernel_list.h"
#include "kernels/cpu/linear/linear_isa.h"
#include "kernels/cpu/linear/linear_run.h"

namespace sluice::cpu::SLUICE_ISA {
namespace {

using F32 = F32Weights<F32x16, LinearIsa::kF32Rows>;
using Bf16 = Bf16Weights<F32x16, LinearIsa::kBf16Rows>;

using HalfF32 = F32Weights<F32x16, RowsAtOnce{.direct = 4}, true>;

void run_half(const LinearJob& job, int rows) {
  const LinearLayout layout(job.weight->view(), LinearIsa::kTileGroups);
  LinearDirectRows<LinearIsa, HalfF32, FmaArithmetic<F32x16>>::run_group(LinearTile(layout, job.weight->packed(), 0),
                                                                         job, rows);
}

}  // namespace

void linear_f32(const LinearJob& job, int rows, int begin, int end) {
  if (has_half_lines(job.weight->view())) return run_half(job, rows);
  run_few<LinearIsa, F32>(job, rows, begin, end);
}
void linear_f32_panels(const LinearJob& job, int rows, int begin, int end) {
  if (has_half_lines(job.weight->view())) return run_half(job, rows);
  run_many<LinearIsa, F32>(job, rows, begin, end);
}
SLUICE_LINEAR_FORMAT(linear_bf16, Bf16)

namespace {

constexpr WeightSet kBf16 = weights_of(WeightFormat::kBf16);
constexpr LinearKernel kLinears[] = {
    SLUICE_LINEAR_KERNELS(linear_f32, F32::kRows, weights_of(WeightFormat::kF32), set_of(InputForm::kF32)),
    SLUICE_LINEAR(linear_bf16_panels, kBf16, kFloatInputs, .rows_from = Bf16::kRows.panel_from,
                  .needs = LinearIsa::kBf16PanelsNeed, .block_inputs = kPanelInputs),
    SLUICE_LINEAR(linear_bf16, kBf16, kFloatInputs, .any_group = true),
};

}  // namespace

SLUICE_KERNELS(linear_plain, {}, kLinears);

}  // namespace sluice::cpu::SLUICE_ISA
