// The head of a list that is sorted by key, higher first, then by index, lower first. It is found by its keys' bits
// from the top, without sorting. Exact: sums are of integers.
// Used by indexer.cu and sample_parts.h.
#pragma once

#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/shared/scan.h"

namespace sluice::SLUICE_CUDA_OPS {

// The last item of a head. An item is in the head if its key is higher, or the same and its index no higher.
struct HeadEnd {
  std::int32_t key;
  int index;

  SLUICE_DEVICE bool holds(std::int32_t of_item, int i) const {
    return of_item > key || (of_item == key && i <= index);
  }
};

inline constexpr int kSelectBins = 256;

// The memory that a team of kThreads shares for it.
template <int kThreads>
struct SelectScratch {
  std::uint64_t sums[kSelectBins];
  std::uint64_t running[kThreads];
  std::uint64_t total, before;  // the sum of all items, and of those whose keys are certainly higher
  std::int32_t counts[kThreads];
  std::int32_t bin, index;
};

// Adds to a sum in shared memory, as words, for which processors have instructions.
SLUICE_DEVICE void add_to_sum(std::uint64_t* to, std::uint64_t value) {
#ifdef __CUDACC__
  auto* words = reinterpret_cast<unsigned*>(to);
  const auto low = static_cast<unsigned>(value);
  const unsigned carry = atomicAdd(words, low) + low < low ? 1 : 0, high = static_cast<unsigned>(value >> 32) + carry;
  if (high != 0) atomicAdd(words + 1, high);
#else
  *to += value;
#endif
}

// Finds the bin where the head ends, with sums[] added from the highest bin on: the first sum that is enough, or bin 0.
// The sum of higher bins goes to `before`, and with `all` the sum of all bins to `total`. All threads have passed a
// sync().
template <int kThreads, class Reaches>
SLUICE_DEVICE void choose_bin(const Team<kThreads>& team, SelectScratch<kThreads>& scratch, bool all,
                              const Reaches& reaches) {
  PerThread<std::uint64_t, kThreads> sums;
  team.each([&](int t) { sums[t] = t < kSelectBins ? scratch.sums[kSelectBins - 1 - t] : 0; });
  scan(team, sums, scratch.running);
  const std::uint64_t before = scratch.before, total = all ? scratch.running[kThreads - 1] : scratch.total;
  team.sync();
  team.each([&](int t) {
    const std::uint64_t higher = t > 0 ? scratch.running[t - 1] : 0;
    const bool enough = t == kSelectBins - 1 || reaches(before + scratch.running[t], total);
    if (t >= kSelectBins || !enough || (t > 0 && reaches(before + higher, total))) return;
    scratch.bin = kSelectBins - 1 - t;
    scratch.before = before + higher;
    scratch.total = total;
  });
  team.sync();
}

// Finds the shortest head of items [0, n) whose sum of weight(i), integers, is enough: reaches(its sum, the sum of all)
// says so. It must be true for the sum of all items. Among items with the same key, those that have no weight come
// after those that have the weight of the first. key(i) and weight(i) are called several times.
template <int kThreads, class Key, class Weight, class Reaches>
SLUICE_DEVICE HeadEnd select_head(const Team<kThreads>& team, SelectScratch<kThreads>& scratch, int n, const Key& key,
                                  const Weight& weight, const Reaches& reaches) {
  static_assert(kThreads >= kSelectBins);
  const auto ordered = [&](int i) { return static_cast<std::uint32_t>(key(i)) ^ 0x80000000U; };
  std::uint32_t prefix = 0;
  team.sync();
  team.each([&](int t) {
    if (t == 0) scratch.before = 0;
  });
  for (int shift = 24; shift >= 0; shift -= 8) {
    team.each([&](int t) {
      if (t < kSelectBins) scratch.sums[t] = 0;
    });
    team.sync();
    team.each([&](int t) {
      constexpr int kAtOnce = 4;  // items loaded before any is added
      for (int first = t; first < n; first += kAtOnce * kThreads) {
        std::uint32_t bits[kAtOnce] = {};
        SLUICE_UNROLL
        for (int j = 0; j < kAtOnce; ++j) {
          if (first + j * kThreads < n) bits[j] = ordered(first + j * kThreads);
        }
        SLUICE_UNROLL
        for (int j = 0; j < kAtOnce && first + j * kThreads < n; ++j) {
          if (shift < 24 && (bits[j] ^ prefix) >> (shift + 8) != 0) continue;
          const std::uint64_t w = weight(first + j * kThreads);
          if (w > 0) add_to_sum(&scratch.sums[bits[j] >> shift & 0xFFU], w);
        }
      }
    });
    team.sync();
    choose_bin(team, scratch, shift == 24, reaches);
    prefix |= static_cast<std::uint32_t>(scratch.bin) << shift;
    team.sync();
  }
  // Adds items with that key, as many as it takes, in the order of their indices: each thread has a run of these.
  const int run = (n + kThreads - 1) / kThreads;
  PerThread<std::int32_t, kThreads> equals;
  team.each([&](int t) {
    equals[t] = 0;
    for (int i = t * run; i < (t + 1) * run && i < n; ++i) {
      if (ordered(i) == prefix && weight(i) > 0) ++equals[t];
    }
    if (t == 0) scratch.index = 0;
  });
  scan(team, equals, scratch.counts);
  const std::uint64_t before = scratch.before, total = scratch.total;
  team.each([&](int t) {
    int rank = t > 0 ? scratch.counts[t - 1] : 0;
    if (rank == scratch.counts[t]) return;
    for (int i = t * run; i < (t + 1) * run && i < n; ++i) {
      const std::uint64_t w = ordered(i) == prefix ? weight(i) : 0;
      if (w == 0) continue;
      const auto head = [&](int items) { return before + static_cast<std::uint64_t>(items) * w; };
      const bool last = rank + 1 == scratch.counts[kThreads - 1] || reaches(head(rank + 1), total);
      if (last && (rank == 0 || !reaches(head(rank), total))) scratch.index = i;
      ++rank;
    }
  });
  team.sync();
  return {static_cast<std::int32_t>(prefix ^ 0x80000000U), scratch.index};
}

}  // namespace sluice::SLUICE_CUDA_OPS
