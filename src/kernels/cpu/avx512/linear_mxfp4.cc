#include "kernels/cpu/avx512/linear_formats.h"
#include "kernels/cpu/avx512/linear_kernels.h"
#include "kernels/cpu/linear_tile.h"

namespace sluice::avx512 {

void linear_mxfp4(const LinearJob& job, int rows, int begin, int end) {
  LinearRunner<LinearIsa, Mxfp4Weights>::run(job, rows, begin, end);
}

}  // namespace sluice::avx512
