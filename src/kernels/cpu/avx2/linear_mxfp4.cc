#include "kernels/cpu/avx2/linear_formats.h"
#include "kernels/cpu/avx2/linear_kernels.h"
#include "kernels/cpu/linear_run.inc.h"

namespace sluice::avx2 {

void linear_mxfp4(const LinearJob& job, int rows, int begin, int end) {
  cpu::run_linear<LinearIsa, Mxfp4Weights>(job, rows, begin, end);
}

}  // namespace sluice::avx2
