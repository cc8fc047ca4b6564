#include "kernels/ref/kernels.h"
#include "kernels/ref/lanes16.h"

namespace sluice::ref {

void layer_norm(const LayerNormArgs& args, int begin, int end) {
  for (int row = begin; row < end; ++row) {
    const float* x = args.x + row * args.ldx;
    float* y = args.y + row * args.ldy;
    const auto n = static_cast<float>(args.dim);
    Lanes16 sum{}, squares{};
    for (int t = 0; t < args.dim; ++t) sum[static_cast<std::size_t>(t % 16)] += x[t];
    const float mean = tree_sum(sum) / n;
    for (int t = 0; t < args.dim; ++t) {
      float& lane = squares[static_cast<std::size_t>(t % 16)];
      lane = std::fma(x[t] - mean, x[t] - mean, lane);
    }
    const float r = 1.0F / std::sqrt(tree_sum(squares) / n + args.eps);
    for (int t = 0; t < args.dim; ++t) y[t] = std::fma((x[t] - mean) * r, args.weight[t], args.bias[t]);
  }
}

}  // namespace sluice::ref
