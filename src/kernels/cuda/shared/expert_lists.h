// Kernels that list (row, slot) pairs by expert (kernels/cuda/shared/expert_pairs.h).
// Used by expert_pairs.cu, kernels/cuda/sm90/expert_stream.cu and kernels/cuda/sm90/pair_experts.cu.
#pragma once

#include "kernels/cuda/shared/expert_pairs.h"
#include "kernels/cuda/shared/scan.h"

namespace sluice::SLUICE_CUDA_OPS {

inline constexpr int kMostExperts = 512;

struct ExpertTable {
  const std::byte *gate[kMostExperts], *up[kMostExperts], *down[kMostExperts];
};

SLUICE_DEVICE void put_group(const ExpertTable& table, const PairLists& lists, int group, int expert, int first,
                             int rows) {
  lists.gate[group] = {table.gate[expert], first, rows};
  lists.up[group] = {table.up[expert], first, rows};
  lists.down[group] = {table.down[expert], first, rows};
}

// Lists few pairs unsorted: each thread has a pair, and each pair is a group.
struct TakePairs {
  static constexpr int kThreads = 1;
  ExpertTable table;
  PairLists lists;
  const std::int32_t* ids;
  const float* weights;
  int slots, pairs;
  GroupSizes sizes;

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    const int p = team.index;
    lists.rows[p] = p / slots;
    lists.positions[p] = p;
    lists.weights[p] = weights[p];
    if (lists.experts != nullptr) lists.experts[p] = ids[p];
    put_group(table, lists, p, ids[p], p, 1);
    if (p > 0 || lists.used == nullptr) return;
    *lists.used = pairs;
    for (int i = 0; sizes.count > 0 && i <= sizes.count; ++i) lists.used[1 + i] = i == 0 ? 0 : pairs;
  }
};

// Lists pairs by one team. kInOrder: an expert's pairs ascend, so that every rank of a group has the same ones in the
// same rows; otherwise they lie in the order in which its threads come.
template <bool kInOrder>
struct SortPairsAs {
  static constexpr int kThreads = kMostExperts;
  ExpertTable table;
  PairLists lists;
  const std::int32_t* ids;
  const float* weights;
  int slots, pairs, groups;
  int group_rows;  // most rows of a group; an expert's rows are spread evenly over its groups
  GroupSizes sizes;

  static constexpr int kRanges = 32;  // runs of pairs; one thread puts a run's pairs in their places in order
  static constexpr std::size_t kSharedBytes =
      (2 * kMostExperts + GroupSizes::kMost + (kInOrder ? kRanges * kMostExperts : 0)) * sizeof(std::int32_t);

  // Calls body for the pairs of thread t and their experts, several of which are loaded at once.
  template <class Body>
  SLUICE_DEVICE void of_pairs(int t, const Body& body) const {
    constexpr int kAtOnce = 8;
    for (int first = t; first < pairs; first += kAtOnce * kThreads) {
      std::int32_t experts[kAtOnce];
      SLUICE_UNROLL
      for (int i = 0; i < kAtOnce; ++i) {
        experts[i] = first + i * kThreads < pairs ? ids[first + i * kThreads] : 0;
      }
      SLUICE_UNROLL
      for (int i = 0; i < kAtOnce; ++i) {
        if (first + i * kThreads < pairs) body(first + i * kThreads, experts[i]);
      }
    }
  }

  SLUICE_DEVICE int groups_of_expert(int count) const { return (count + group_rows - 1) / group_rows; }
  SLUICE_DEVICE int size_of(int count) const {
    const int of_expert = groups_of_expert(count);
    return sizes.of((count + of_expert - 1) / of_expert);
  }

  // Thread t has expert t.
  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    auto* next = reinterpret_cast<std::int32_t*>(team.shared);  // by expert: where its next pair goes
    // Scratch of the sums; groups by size.
    std::int32_t *scratch = next + kMostExperts, *of_size = scratch + kMostExperts;
    PerThread<std::int32_t, kThreads> count, end, first_group;
    team.each([&](int t) {
      next[t] = 0;
      if (t < GroupSizes::kMost) of_size[t] = 0;
    });
    team.sync();
    team.each([&](int t) { of_pairs(t, [&](int, int expert) { add_atomically(&next[expert], 1); }); });
    team.sync();
    team.each([&](int t) {
      count[t] = next[t];
      end[t] = count[t];
      if (count[t] > 0) first_group[t] = add_atomically(&of_size[size_of(count[t])], groups_of_expert(count[t]));
    });
    scan(team, end, scratch);
    team.each([&](int t) {
      int used = 0;
      for (int i = 0; i < GroupSizes::kMost; ++i) {
        if (count[t] > 0 && i == size_of(count[t])) first_group[t] += used;
        if (t == 0 && i <= sizes.count && sizes.count > 0) lists.used[1 + i] = used;
        used += of_size[i];
      }
      if (t == 0 && lists.used != nullptr) *lists.used = used;
      next[t] = end[t] - count[t];
      const int of_expert = groups_of_expert(count[t]);
      for (int g = 0; g < of_expert; ++g) {
        const int begin = count[t] * g / of_expert, rows = count[t] * (g + 1) / of_expert - begin;
        put_group(table, lists, first_group[t] + g, t, next[t] + begin, rows);
      }
      for (int g = used + t; g < groups; g += kThreads) put_group(table, lists, g, 0, 0, 0);
    });
    team.sync();
    if constexpr (kInOrder) {
      find_places(team, next, of_size + GroupSizes::kMost);
      team.each([&](int t) { of_pairs(t, [&](int p, int expert) { place(p, expert, lists.positions[p]); }); });
    } else {
      team.each(
          [&](int t) { of_pairs(t, [&](int p, int expert) { place(p, expert, add_atomically(&next[expert], 1)); }); });
    }
  }

  SLUICE_DEVICE void place(int p, int expert, int at) const {
    lists.rows[at] = p / slots;
    lists.positions[p] = at;
    lists.weights[at] = weights[p];
    if (lists.experts != nullptr) lists.experts[at] = expert;
  }
  // Finds the positions of all pairs. next: by expert, where its first pair goes. of_ranges: [kRanges][kMostExperts].
  SLUICE_DEVICE void find_places(const Team<kThreads>& team, const std::int32_t* next, std::int32_t* of_ranges) const {
    constexpr int kThreadsOfRange = kThreads / kRanges;
    const int of_range = (pairs + kRanges - 1) / kRanges;
    team.each([&](int t) {
      for (int range = 0; range < kRanges; ++range) of_ranges[range * kMostExperts + t] = 0;
    });
    team.sync();
    team.each([&](int t) {
      of_pairs(t, [&](int p, int expert) { add_atomically(&of_ranges[p / of_range * kMostExperts + expert], 1); });
    });
    team.sync();
    team.each([&](int t) {
      std::int32_t at = next[t];
      for (int range = 0; range < kRanges; ++range) {
        const std::int32_t count = of_ranges[range * kMostExperts + t];
        of_ranges[range * kMostExperts + t] = at;
        at += count;
      }
    });
    team.sync();
    team.each([&](int t) {
      if (t % kThreadsOfRange != 0) return;
      constexpr int kAtOnce = 8;  // pairs whose experts are loaded at once
      const int range = t / kThreadsOfRange, begin = range * of_range;
      const int end = begin + of_range < pairs ? begin + of_range : pairs;
      std::int32_t* const next_of_range = of_ranges + range * kMostExperts;
      for (int first = begin; first < end; first += kAtOnce) {
        std::int32_t experts[kAtOnce];
        SLUICE_UNROLL
        for (int i = 0; i < kAtOnce; ++i) experts[i] = first + i < end ? ids[first + i] : 0;
        SLUICE_UNROLL
        for (int i = 0; i < kAtOnce; ++i) {
          if (first + i < end) lists.positions[first + i] = next_of_range[experts[i]]++;
        }
      }
    });
    team.sync();
  }
};

inline ExpertTable table_of(const ExpertsArgs& args) {
  SLUICE_CHECK(args.experts.size() <= kMostExperts, "no more experts than a kernel takes");
  ExpertTable table{};
  for (std::size_t e = 0; e < args.experts.size(); ++e) {
    table.gate[e] = args.experts[e].gate.packed();
    table.up[e] = args.experts[e].up.packed();
    table.down[e] = args.experts[e].down.packed();
  }
  return table;
}

}  // namespace sluice::SLUICE_CUDA_OPS
