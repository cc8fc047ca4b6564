// Used by bench/row_kernels.cc and kernels/composed/store_kv.cc.
#include "kernels/ops/compressor.h"

#include <algorithm>

namespace sluice {

void reset_compressor_state(int dim, bool overlap, float* state) {
  for (int accumulator = 0; accumulator < (overlap ? 2 : 1); ++accumulator) {
    float* m = state + 3 * dim * accumulator;
    std::fill_n(m, dim, -std::numeric_limits<float>::infinity());
    std::fill_n(m + dim, 2 * dim, 0.0F);
  }
}

}  // namespace sluice
