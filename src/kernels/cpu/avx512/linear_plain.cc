// Weights without scales. Decoding one costs so little that panels do not pay (kPanelFrom 0), except for bf16 where
// shifts take the place of multiply-adds (Intel).
#include "kernels/cpu/avx512/linear_formats.h"
#include "kernels/cpu/avx512/linear_kernels.h"
#include "kernels/cpu/avx512/linear_tuning.h"
#include "kernels/cpu/linear_run.inc.h"

namespace sluice::avx512 {

void linear_plain(const LinearJob& job, int rows, int begin, int end) {
  if (job.weight->view().format == WeightFormat::kF32) {
    cpu::run_linear<LinearIsa, cpu::F32Weights<F32x16, 4, 0>>(job, rows, begin, end);
  } else if (linear_tuning().streams) {
    cpu::run_linear<LinearIsa, cpu::Bf16Weights<F32x16, 4, 17>>(job, rows, begin, end);
  } else {
    cpu::run_linear<LinearIsa, cpu::Bf16Weights<F32x16, 4, 0>>(job, rows, begin, end);
  }
}

}  // namespace sluice::avx512
