// Elementwise ops (kernels/ops/elementwise.h), word for word.
// Used by kernels/cpu, kernels/cpu/scalar and kernels/ref.
#include <cmath>

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

namespace {

void rotate(float* x, const float* table, int pairs, const RopeHeadsArgs& args) {
  for (int i = 0; i < pairs; ++i) {
    const float c = table[2 * i], s = args.inverse ? -table[2 * i + 1] : table[2 * i + 1];
    float& first = args.half_split ? x[i] : x[2 * i];
    float& second = args.half_split ? x[i + pairs] : x[2 * i + 1];
    const float x0 = first, x1 = second;
    first = std::fma(x0, c, -(x1 * s));
    second = std::fma(x0, s, x1 * c);
  }
}

}  // namespace

void rope_heads(const RopeHeadsArgs& args, int begin, int end) {
  for (int row = begin; row < end; ++row) {
    const float* table = args.table + static_cast<std::ptrdiff_t>(args.positions[row]) * args.rope_dims;
    for (int head = 0; head < args.heads; ++head) {
      float* x = args.x + row * args.ldx + static_cast<std::ptrdiff_t>(head) * args.head_dim;
      if (args.norm_eps >= 0.0F) {
        const float r = reciprocal_rms(x, args.head_dim, args.norm_eps);
        for (int t = 0; t < args.head_dim; ++t) x[t] = x[t] * r;
      }
      rotate(x + args.offset, table, args.rope_dims / 2, args);
    }
  }
}

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
