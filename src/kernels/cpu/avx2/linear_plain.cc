// Weights without scales.
#include "kernels/cpu/avx2/linear_formats.h"
#include "kernels/cpu/avx2/linear_kernels.h"
#include "kernels/cpu/linear_run.inc.h"

namespace sluice::avx2 {

void linear_plain(const LinearJob& job, int rows, int begin, int end) {
  if (job.weight->view().format == WeightFormat::kF32) {
    cpu::run_linear<LinearIsa, cpu::F32Weights<F32x16, 2, 8>>(job, rows, begin, end);
  } else {
    cpu::run_linear<LinearIsa, cpu::Bf16Weights<F32x16, 2, 8>>(job, rows, begin, end);
  }
}

}  // namespace sluice::avx2
