// Scores as integers of the same order (kernels/common/order_key.h), and the best of many, over sixteen lanes V.
// Used by kernels/cpu/attention/index_scorer.h and route.isa.cc.
#pragma once

#include <limits>

#include "kernels/common/index_tile.h"
#include "kernels/cpu/math.h"

namespace sluice::cpu::SLUICE_ISA {

template <class V>
[[gnu::always_inline]] inline typename V::Int order_keys(V scores) {
  using I = typename V::Int;
  // If one of two operands is NaN, max_of() gives the second.
  const V numbers = max_of(scores, V::broadcast(-std::numeric_limits<float>::infinity()));
  const I bits = as_bits(numbers + V::zero());
  return bits ^ (shift_right_signed<31>(bits) & I::broadcast(0x7FFFFFFF));
}

// Counts the keys of keys[0..n), n a multiple of 16, that are above `bound`.
template <class V>
[[gnu::always_inline]] inline int count_above(const std::int32_t* keys, int n, std::int32_t bound) {
  using I = typename V::Int;
  const I limit = I::broadcast(bound);
  int count = 0;
  for (int i = 0; i < n; i += 16) count += __builtin_popcount(bits(greater(I::load(keys + i), limit)));
  return count;
}

struct Threshold {
  std::int32_t key;  // the k-th largest key, or a smaller bound that the same keys reach
  int at_least;      // the number of keys that reach it
};

// Bisects the keys' range: no data moves, and a pass is one comparison for sixteen keys. Requires 1 <= k <= the number
// of keys above INT32_MIN; keys[count..) up to a multiple of 16 must be INT32_MIN.
template <class V>
[[gnu::always_inline]] inline Threshold kth_largest(const std::int32_t* keys, int count, int k) {
  using I = typename V::Int;
  const I padding = I::broadcast(INT32_MIN);
  I top = padding, bottom = I::broadcast(INT32_MAX);
  for (int i = 0; i < count; i += 16) {
    const I key = I::load(keys + i);
    top = max_of(top, key);
    bottom = min_of(bottom, select(equal(key, padding), bottom, key));
  }
  std::int32_t tops[16], bottoms[16];
  tree_max(top).store(tops);
  bottom.store(bottoms);
  // Invariant: at least k keys reach `low`, fewer than k reach `high`.
  std::int64_t low = bottoms[0], high = std::int64_t{tops[0]} + 1;
  for (const std::int32_t key : bottoms) low = key < low ? key : low;
  int at_least = count;
  while (high - low > 1 && at_least != k) {
    const std::int64_t middle = low + (high - low) / 2;
    const int reach = count_above<V>(keys, count, static_cast<std::int32_t>(middle - 1));
    if (reach >= k) {
      low = middle;
      at_least = reach;
    } else {
      high = middle;
    }
  }
  return {static_cast<std::int32_t>(low), at_least};
}

// Returns the first n of the lanes of `mask`, and subtracts their number from n.
template <class V>
[[gnu::always_inline]] inline typename V::Mask take_first(typename V::Mask mask, int& n) {
  unsigned left = bits(mask);
  int end = 0;
  for (; left != 0 && n > 0; left &= left - 1, --n) end = __builtin_ctz(left) + 1;
  return mask & first_lanes_of<V>(end);
}

// Keeps the k best, in their order, and of those that tie for the last places the first (kernels/common/index_tile.h).
template <class V>
void keep_best(IndexCandidates& candidates, int k) {
  using I = typename V::Int;
  const int count = candidates.count;
  if (count <= k) return;
  std::int32_t *keys = candidates.keys, *entries = candidates.entries;
  for (int i = count; i % 16 != 0; ++i) keys[i] = INT32_MIN;
  const Threshold threshold = kth_largest<V>(keys, count, k);
  const I bound = I::broadcast(threshold.key);
  int ties = threshold.at_least == k ? k : k - count_above<V>(keys, count, threshold.key);
  int kept = 0;
  for (int i = 0; i < count; i += 16) {  // the kept entries are written over entries that were already read
    const I key = I::load(keys + i), entry = I::load(entries + i);
    auto taken = greater(key, bound);
    const auto equals = equal(key, bound);
    if (ties > 0 && bits(equals) != 0) taken = taken | take_first<V>(equals, ties);
    if (bits(taken) == 0) continue;
    compress_store(keys + kept, taken, key);
    kept += compress_store(entries + kept, taken, entry);
  }
  candidates.count = kept;
  candidates.bound = threshold.key;
}

// Adds the scores of entries [first, first + count), 64 at most, from `scores`, which may be read up to the next
// multiple of 16.
template <class V>
[[gnu::always_inline]] inline void add_candidates(const float* scores, std::int32_t first, int count, int k,
                                                  IndexCandidates& candidates) {
  using I = typename V::Int;
  if (candidates.count + count > candidates.capacity) keep_best<V>(candidates, k);
  I bound = I::broadcast(candidates.bound);
  for (int i = 0; i < count; i += 16) {
    const I key = order_keys(V::load(scores + i));
    const auto better = greater(key, bound) & first_lanes_of<V>(count - i);
    if (bits(better) == 0) continue;
    compress_store(candidates.keys + candidates.count, better, key);
    candidates.count +=
        compress_store(candidates.entries + candidates.count, better, I::iota() + I::broadcast(first + i));
  }
}

}  // namespace sluice::cpu::SLUICE_ISA
