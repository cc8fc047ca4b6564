#include <algorithm>

#include "kernels/common/math.h"
#include "kernels/ref/linear.h"

namespace sluice {

void swiglu_scalar(const SwiGluArgs& args, int begin, int end) {
  for (int r = begin; r < end; ++r) {
    const float weight = args.row_weight != nullptr ? args.row_weight[r] : 1.0F;
    for (int i = 0; i < args.dim; ++i) {
      const std::ptrdiff_t at = r * args.ld + i;
      float a = args.gate[at];
      float b = args.up[at];
      if (args.limit > 0.0F) {
        a = std::min(a, args.limit);
        b = std::max(std::min(b, args.limit), -args.limit);
      }
      args.out[at] = (silu_f32(a) * b) * weight;
    }
  }
}

}  // namespace sluice
