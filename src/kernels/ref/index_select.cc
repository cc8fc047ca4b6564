#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/order_key.h"
#include "kernels/ref/kernels.h"
#include "kernels/ref/lanes16.h"

namespace sluice::ref {

void index_scores(const IndexSelectArgs& args, int span_index, int begin, int end, std::int32_t first,
                  std::int32_t last, float* scores, std::ptrdiff_t stride) {
  const CacheSpan& span = args.spans[static_cast<std::size_t>(span_index)];
  std::vector<float> key(static_cast<std::size_t>(args.dims));
  for (std::int32_t e = first; e < last; ++e) {
    decode_row(args.keys->format, latent_row(span, *args.keys, e), key.data());
    for (int row = begin; row < end; ++row) {
      const float* q = args.q + static_cast<std::ptrdiff_t>(row) * args.heads * args.dims;
      float score = 0.0F;
      for (int h = 0; h < args.heads; ++h) {
        const float dot = lanes16_dot(q + static_cast<std::ptrdiff_t>(h) * args.dims, key.data(), args.dims);
        score =
            std::fma(args.weights[static_cast<std::ptrdiff_t>(row) * args.heads + h], dot > 0.0F ? dot : 0.0F, score);
      }
      scores[(row - begin) * stride + e] = score;
    }
  }
}

void top_k(const float* scores, int n, int k, std::int32_t* selected) {
  std::vector<std::int32_t> order(static_cast<std::size_t>(n));
  for (int e = 0; e < n; ++e) order[static_cast<std::size_t>(e)] = e;
  std::partial_sort(order.begin(), order.begin() + k, order.end(), [&](std::int32_t a, std::int32_t b) {
    const std::int32_t key_a = order_key(scores[a]), key_b = order_key(scores[b]);
    return key_a != key_b ? key_a > key_b : a < b;
  });
  std::sort(order.begin(), order.begin() + k);
  std::copy_n(order.begin(), k, selected);
}

}  // namespace sluice::ref
