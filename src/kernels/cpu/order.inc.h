// Scores as integers of the same order (kernels/order_key.h), and the best of many, over sixteen lanes V.
#pragma once

#include "kernels/cpu/math.inc.h"
#include "kernels/tiles.h"

namespace sluice::cpu {

template <class V>
[[gnu::always_inline]] inline typename V::Int order_keys(V scores) {
  using I = typename V::Int;
  const I bits = as_bits(scores + V::zero());
  return max_of(bits ^ (shift_right_signed<31>(bits) & I::broadcast(0x7FFFFFFF)), I::broadcast(INT32_MIN + 1));
}

// How many of keys[0..n), n a multiple of 16, are above `bound`.
template <class V>
[[gnu::always_inline]] inline int count_above(const std::int32_t* keys, int n, std::int32_t bound) {
  using I = typename V::Int;
  const I limit = I::broadcast(bound);
  int count = 0;
  for (int i = 0; i < n; i += 16) count += __builtin_popcount(bits(greater(I::load(keys + i), limit)));
  return count;
}

struct Threshold {
  std::int32_t key;  // the k-th largest key, or a smaller one that as many keys reach
  int at_least;      // how many keys reach it
};

// Bisects the keys' range: no data moves, and a pass is one comparison for sixteen keys. 1 <= k <= the number of keys
// above INT32_MIN, which marks padding and no score has.
template <class V>
[[gnu::always_inline]] inline Threshold kth_largest(const std::int32_t* keys, int n, int k) {
  using I = typename V::Int;
  I top = I::load(keys);
  for (int i = 16; i < n; i += 16) top = max_of(top, I::load(keys + i));
  std::int32_t lanes[16];
  tree_max(top).store(lanes);
  const auto reach = [&](std::int64_t key) { return count_above<V>(keys, n, static_cast<std::int32_t>(key - 1)); };
  // Invariant: at least k keys reach `low`, fewer than k reach `high`.
  std::int64_t low = std::int64_t{INT32_MIN} + 1, high = std::int64_t{lanes[0]} + 1;
  int at_least = reach(low);
  while (high - low > 1 && at_least != k) {
    const std::int64_t middle = low + (high - low) / 2;
    const int count = reach(middle);
    if (count >= k) {
      low = middle;
      at_least = count;
    } else {
      high = middle;
    }
  }
  return {static_cast<std::int32_t>(low), at_least};
}

// The k best of scores[0..n) by higher score, then lower index; written in ascending order. 0 <= k <= n.
template <class V>
void top_k(const float* scores, int n, int k, std::int32_t* selected) {
  using I = typename V::Int;
  if (k <= 0) return;
  const int padded = (n + 15) / 16 * 16;
  auto* keys = reinterpret_cast<std::int32_t*>(thread_scratch(static_cast<std::size_t>(padded)));
  for (int i = 0; i < n; i += 16) {
    const I key = order_keys(load_up_to_16<V>(scores + i, n - i));
    select(first_lanes_of<V>(n - i), key, I::broadcast(INT32_MIN)).store(keys + i);
  }
  const Threshold threshold = kth_largest<V>(keys, padded, k);
  const I bound = I::broadcast(threshold.key);
  int ties = k - count_above<V>(keys, padded, threshold.key);  // of the keys equal to the threshold, the first ones
  std::int32_t lanes[16];
  for (int i = 0; i < n && k > 0; i += 16) {
    const I key = I::load(keys + i);
    unsigned taken = bits(greater(key, bound));
    for (unsigned equals = bits(equal(key, bound)); equals != 0 && ties > 0; equals &= equals - 1, --ties) {
      taken |= equals & (0U - equals);
    }
    if (taken == 0) continue;
    (I::iota() + I::broadcast(i)).store(lanes);
    for (; taken != 0; taken &= taken - 1, --k) *selected++ = lanes[__builtin_ctz(taken)];
  }
}

}  // namespace sluice::cpu
