// Weights without scales.
#include "kernels/cpu/avx512/linear_formats.h"
#include "kernels/cpu/avx512/linear_kernels.h"
#include "kernels/cpu/linear_tile.h"

namespace sluice::avx512 {

void linear_plain(const LinearJob& job, int rows, int begin, int end) {
  if (job.weight->view().format == WeightFormat::kF32) {
    LinearRunner<LinearIsa, cpu::F32Weights<F32x16>>::run(job, rows, begin, end);
  } else {
    LinearRunner<LinearIsa, cpu::Bf16Weights<F32x16>>::run(job, rows, begin, end);
  }
}

}  // namespace sluice::avx512
