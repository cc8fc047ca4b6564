#include "kernels/ref/kernels.h"
#include "kernels/ref/lanes16.h"

namespace sluice::ref {
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

}  // namespace sluice::ref
