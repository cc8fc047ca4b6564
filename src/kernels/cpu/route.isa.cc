// Compiled for avx2 and avx512.
// Expert routing (kernels/ops/router.h) over sixteen lanes V.
#include "kernels/common/route_groups.h"
#include "kernels/cpu/kernel_list.h"
#include "kernels/cpu/linear/tiles.h"
#include "kernels/cpu/order.h"
#include "kernels/cpu/vec.h"

namespace sluice::cpu::SLUICE_ISA {

// Returns the first lane of the largest key of keys[0..n), n a multiple of 16; that key becomes the smallest.
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

// Computes scores[0..padded) of one row; values past the experts are unspecified.
template <class V>
[[gnu::always_inline]] inline void router_softmax(const float* logits, int experts, float* scores) {
  const V nothing = V::broadcast(-__builtin_inff());
  V m = nothing;
  for (int e = 0; e < experts; e += 16) {
    const int n = experts - e;
    m = max_of(select(first_lanes_of<V>(n), load_up_to_16<V>(logits + e, n), nothing), m);
  }
  m = tree_max(m);
  V z = V::zero();
  for (int e = 0; e < experts; e += 16) {
    const int n = experts - e;
    const V w = select(first_lanes_of<V>(n), exp(load_up_to_16<V>(logits + e, n) - m), V::zero());
    w.store(scores + e);
    z = z + w;
  }
  z = tree_sum(z);
  for (int e = 0; e < experts; e += 16) (V::load(scores + e) / z).store(scores + e);
}

template <class V>
[[gnu::always_inline]] inline void router_scores(const RouteArgs& args, const float* logits, float* scores) {
  if (args.score == RouterScore::kSoftmax) return router_softmax<V>(logits, args.experts, scores);
  for (int e = 0; e < args.experts; e += 16) {
    const V logit = load_up_to_16<V>(logits + e, args.experts - e);
    (args.score == RouterScore::kSigmoid ? sigmoid(logit) : sqrt(softplus(logit))).store(scores + e);
  }
}

void route(const RouteArgs& args, int begin, int end) {
  using V = F32x16;
  using I = typename V::Int;
  const int padded = (args.experts + 15) / 16 * 16;
  float* scores = thread_scratch(static_cast<std::size_t>(3 * padded + args.groups));
  float* biased = scores + padded;
  auto* keys = reinterpret_cast<std::int32_t*>(biased + padded);
  for (int row = begin; row < end; ++row) {
    router_scores<V>(args, args.logits + static_cast<std::ptrdiff_t>(row) * args.experts, scores);
    for (int e = 0; e < args.experts; e += 16) {
      const int n = args.experts - e;
      const V score = V::load(scores + e);
      const V sum = args.bias != nullptr ? score + load_up_to_16<V>(args.bias + e, n) : score;
      sum.store(biased + e);
      select(first_lanes_of<V>(n), order_keys(sum), I::broadcast(kNoKey)).store(keys + e);
    }
    if (args.groups > 1) keep_best_groups(args, biased, keys, keys + padded);
    std::int32_t* ids = args.ids + static_cast<std::ptrdiff_t>(row) * args.slots;
    float* weights = args.weights + static_cast<std::ptrdiff_t>(row) * args.slots;
    float sum = 0.0F;
    for (int s = 0; s < args.slots; ++s) {
      ids[s] = args.hash_ids != nullptr ? args.given_id(row, s) : take_best<V>(keys, padded);
      sum += scores[ids[s]];
    }
    sum += args.sum_epsilon;
    for (int s = 0; s < args.slots; ++s) {
      weights[s] = args.normalised ? scores[ids[s]] / sum * args.scaling : scores[ids[s]] * args.scaling;
    }
  }
}

namespace {

constexpr Kernel kKernels[] = {
    SLUICE_KERNEL(route, route),
};

}  // namespace

SLUICE_KERNELS(route, kKernels, {});

}  // namespace sluice::cpu::SLUICE_ISA
