#include "kernels/cpu/avx512/kernels.h"
#include "kernels/cpu/avx512/vec.h"
#include "kernels/cpu/index_select.inc.h"

namespace sluice::avx512 {

void index_scores(const IndexSelectArgs& args, int span, int begin, int end, std::int32_t first, std::int32_t last,
                  float* scores, std::ptrdiff_t stride) {
  cpu::index_scores<F32x16>(args, span, begin, end, first, last, scores, stride);
}

}  // namespace sluice::avx512
