#include "kernels/cpu/avx512/linear_formats.h"
#include "kernels/cpu/avx512/linear_kernels.h"
#include "kernels/cpu/linear_tile.h"

namespace sluice {

void linear_mxfp4_avx512(const LinearJob& job, int rows, int begin, int end) {
  LinearRunner<Avx512, Mxfp4Weights>::run(job, rows, begin, end);
}

}  // namespace sluice
