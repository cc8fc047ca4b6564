#include "kernels/common/activation.h"

#include "kernels/ref/ref_linear.h"

namespace sluice {

void activation_scalar(const ActivationArgs& args, int begin, int end) {
  for (int r = begin; r < end; ++r) {
    const float weight = args.row_weight != nullptr ? args.row_weight[r] : 1.0F;
    for (int i = 0; i < args.dim; ++i) {
      const std::ptrdiff_t at = r * args.ld + i;
      args.out[at] = activated(args.activation, args.gate[at], args.up[at], weight);
    }
  }
}

}  // namespace sluice
