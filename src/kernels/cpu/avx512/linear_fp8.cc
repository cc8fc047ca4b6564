#include "kernels/cpu/avx512/linear_formats.h"
#include "kernels/cpu/avx512/linear_kernels.h"
#include "kernels/cpu/linear_tile.h"

namespace sluice {

void linear_fp8_avx512(const LinearJob& job, int rows, int begin, int end) {
  if (job.weight->view().scale_format == ScaleFormat::kF32) {
    LinearRunner<Avx512, Fp8PrescaledWeights>::run(job, rows, begin, end);
  } else {
    LinearRunner<Avx512, Fp8Weights>::run(job, rows, begin, end);
  }
}

}  // namespace sluice
