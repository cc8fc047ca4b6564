// Expert routing (kernels/router.h) over sixteen lanes V.
#pragma once

#include "kernels/cpu/order.inc.h"
#include "kernels/kernel_table.h"
#include "kernels/tiles.h"

namespace sluice::cpu {

// The first lane of the largest key of keys[0..n), n a multiple of 16; that key becomes the smallest.
template <class V>
[[gnu::always_inline]] inline std::int32_t take_best(std::int32_t* keys, int n) {
  using I = typename V::Int;
  I best = I::load(keys);
  for (int i = 16; i < n; i += 16) best = max_of(best, I::load(keys + i));
  best = tree_max(best);
  for (int i = 0;; i += 16) {
    const unsigned where = bits(equal(I::load(keys + i), best));
    if (where == 0) continue;
    const int id = i + __builtin_ctz(where);
    keys[id] = INT32_MIN;
    return id;
  }
}

template <class V>
void route(const RouteArgs& args, int begin, int end) {
  using I = typename V::Int;
  const int padded = (args.experts + 15) / 16 * 16;
  float* scores = thread_scratch(2 * static_cast<std::size_t>(padded));
  auto* keys = reinterpret_cast<std::int32_t*>(scores + padded);
  for (int row = begin; row < end; ++row) {
    const float* logits = args.logits + static_cast<std::ptrdiff_t>(row) * args.experts;
    for (int e = 0; e < args.experts; e += 16) {
      const int n = args.experts - e;
      const V score = sqrt(softplus(load_up_to_16<V>(logits + e, n)));
      score.store(scores + e);
      const I key = order_keys(args.bias != nullptr ? score + load_up_to_16<V>(args.bias + e, n) : score);
      select(first_lanes_of<V>(n), key, I::broadcast(INT32_MIN)).store(keys + e);
    }
    std::int32_t* ids = args.ids + static_cast<std::ptrdiff_t>(row) * args.slots;
    float* weights = args.weights + static_cast<std::ptrdiff_t>(row) * args.slots;
    float sum = 0.0F;
    for (int s = 0; s < args.slots; ++s) {
      ids[s] = args.given_ids != nullptr ? args.given_ids[static_cast<std::ptrdiff_t>(row) * args.slots + s]
                                         : take_best<V>(keys, padded);
      sum += scores[ids[s]];
    }
    for (int s = 0; s < args.slots; ++s) weights[s] = scores[ids[s]] / sum * args.scaling;
  }
}

}  // namespace sluice::cpu
