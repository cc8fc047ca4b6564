// Weights without scales.
#include "kernels/cpu/avx512/linear_formats.h"
#include "kernels/cpu/avx512/linear_kernels.h"
#include "kernels/cpu/linear_tile.h"

namespace sluice {

void linear_plain_avx512(const LinearJob& job, int rows, int begin, int end) {
  if (job.weight->view().format == WeightFormat::kF32) {
    LinearRunner<Avx512, F32Weights>::run(job, rows, begin, end);
  } else {
    LinearRunner<Avx512, Bf16Weights>::run(job, rows, begin, end);
  }
}

}  // namespace sluice
