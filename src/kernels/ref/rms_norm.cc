#include "kernels/ref/kernels.h"
#include "kernels/ref/lanes16.h"

namespace sluice::ref {

void rms_norm(const RmsNormArgs& args, int begin, int end) {
  for (int row = begin; row < end; ++row) {
    const float* x = args.x + row * args.ldx;
    float* y = args.y + row * args.ldy;
    const float r = reciprocal_rms(x, args.dim, args.eps);
    for (int t = 0; t < args.dim; ++t) y[t] = args.weight != nullptr ? (x[t] * r) * args.weight[t] : x[t] * r;
  }
}

}  // namespace sluice::ref
