// The head of a list that is sorted by key, higher first, then by index, lower first: found by its keys' bits from the
// top, without sorting. Exact: sums are of integers.
#pragma once

#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/shared/scan.h"

namespace sluice::SLUICE_CUDA_OPS {

// The last item of a head. An item is in it if its key is higher, or the same and its index no higher.
struct HeadEnd {
  std::int32_t key;
  int index;

  SLUICE_DEVICE bool holds(std::int32_t of_item, int i) const {
    return of_item > key || (of_item == key && i <= index);
  }
};

inline constexpr int kSelectBins = 256;

// Memory that a team of kThreads shares for it.
template <int kThreads>
struct SelectScratch {
  std::uint64_t sums[kSelectBins];
  std::uint64_t total, before;  // of all items; of those whose keys are certainly higher
  std::int32_t counts[kThreads];
  std::int32_t bin, index;
};

// The shortest head of items [0, n) whose sum of weight(i), integers, is enough: reaches(its sum, the sum of all) says
// so, for all of them at least. Of items with the same key, those that have no weight come after those that have the
// weight of the first. key(i) and weight(i) are called several times.
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
      for (int i = t; i < n; i += kThreads) {
        const std::uint32_t bits = ordered(i);
        if (shift < 24 && (bits ^ prefix) >> (shift + 8) != 0) continue;
        const std::uint64_t w = weight(i);
        if (w > 0) add_atomically(&scratch.sums[bits >> shift & 0xFFU], w);
      }
    });
    team.sync();
    team.each([&](int t) {  // from the highest bin on; the few sums are quickly added by one thread
      if (t > 0) return;
      if (shift == 24) {
        scratch.total = 0;
        for (int bin = 0; bin < kSelectBins; ++bin) scratch.total += scratch.sums[bin];
      }
      int bin = kSelectBins - 1;
      while (bin > 0 && !reaches(scratch.before + scratch.sums[bin], scratch.total))
        scratch.before += scratch.sums[bin--];
      scratch.bin = bin;
    });
    team.sync();
    prefix |= static_cast<std::uint32_t>(scratch.bin) << shift;
    team.sync();
  }
  // Of the items with that key as many as it takes, in the order of their indices: each thread has a run of these.
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
