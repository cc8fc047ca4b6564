#include <cmath>

#include "kernels/ref/kernels.h"

namespace sluice::ref {

void hadamard(const HadamardArgs& args, int begin, int end) {
  const float scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(args.dim)));
  for (int row = begin; row < end; ++row) {
    float* x = args.x + static_cast<std::ptrdiff_t>(row) * args.dim;
    for (int distance = 1; distance < args.dim; distance *= 2) {
      for (int i = 0; i < args.dim; ++i) {
        if ((i & distance) != 0) continue;
        const float a = x[i], b = x[i + distance];
        x[i] = a + b;
        x[i + distance] = a - b;
      }
    }
    for (int i = 0; i < args.dim; ++i) x[i] *= scale;
  }
}

}  // namespace sluice::ref
