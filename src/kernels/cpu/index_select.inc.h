// The indexer's scores (kernels/indexer.h) over sixteen lanes V.
#pragma once

#include "kernels/cpu/keys.inc.h"
#include "kernels/cpu/products.inc.h"
#include "kernels/kernel_table.h"
#include "kernels/tiles.h"

namespace sluice::cpu {

// Scores of one row for `count` keys from the dot products of `heads` more heads.
template <class V>
[[gnu::always_inline]] inline void add_head_scores(const float* dots, std::ptrdiff_t stride, const float* weights,
                                                   int heads, bool first_heads, int count, float* scores) {
  for (int i = 0; i < count; i += 16) {
    V sum = first_heads ? V::zero() : load_up_to_16<V>(scores + i, count - i);
    for (int h = 0; h < heads; ++h) {
      sum = fma(V::broadcast(weights[h]), max_of(V::load(dots + h * stride + i), V::zero()), sum);
    }
    store_up_to_16(sum, scores + i, count - i);
  }
}

template <class V>
void index_scores(const IndexSelectArgs& args, int span_index, int begin, int end, std::int32_t first,
                  std::int32_t last, float* scores, std::ptrdiff_t stride) {
  constexpr int kKeys = 64, kHeadBlock = 8;
  const CacheSpan& span = args.spans[static_cast<std::size_t>(span_index)];
  const int dims = padded_dims(args.dims);
  const std::ptrdiff_t ldk = key_stride(args.dims);
  float* keys = thread_scratch(static_cast<std::size_t>(kKeys * ldk + kHeadBlock * kKeys + kHeadBlock * dims));
  float* dots = keys + kKeys * ldk;
  float* queries = dots + kHeadBlock * kKeys;
  const float* list[kKeys];
  for (std::int32_t e = first; e < last; e += kKeys) {
    const int count = last - e < kKeys ? last - e : kKeys;
    for (int i = 0; i < count; ++i)
      list[i] = key_values<V>(args.keys->format, latent_row(span, *args.keys, e + i), keys + i * ldk);
    const int padded = (count + 3) / 4 * 4;
    for (int i = count; i < padded; ++i) list[i] = list[0];
    for (int row = begin; row < end; ++row) {
      for (int head = 0; head < args.heads; head += kHeadBlock) {
        const int heads = args.heads - head < kHeadBlock ? args.heads - head : kHeadBlock;
        const float* q = args.q + (static_cast<std::ptrdiff_t>(row) * args.heads + head) * args.dims;
        if (dims != args.dims) {
          pad_queries<V>(q, heads, args.dims, queries);
          q = queries;
        }
        dot_products<V>(q, dims, heads, list, 0, padded, dims, dots, kKeys);
        const float* weights = args.weights + static_cast<std::ptrdiff_t>(row) * args.heads + head;
        add_head_scores<V>(dots, kKeys, weights, heads, head == 0, count, scores + (row - begin) * stride + e);
      }
    }
  }
}

}  // namespace sluice::cpu
