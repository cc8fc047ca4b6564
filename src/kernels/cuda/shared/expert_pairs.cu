#include <algorithm>

#include "kernels/cuda/shared/expert_pairs.h"
#include "kernels/cuda/shared/scan.h"

namespace sluice::SLUICE_CUDA_OPS {
namespace {

constexpr int kMostExperts = 512;

struct ExpertTable {
  const std::byte *gate[kMostExperts], *up[kMostExperts], *down[kMostExperts];
};

SLUICE_DEVICE void put_group(const ExpertTable& table, const PairLists& lists, int group, int expert, int first,
                             int rows) {
  lists.gate[group] = {table.gate[expert], first, rows};
  lists.up[group] = {table.up[expert], first, rows};
  lists.down[group] = {table.down[expert], first, rows};
}

// A thread a pair, each a group.
struct TakePairs {
  static constexpr int kThreads = 1;
  ExpertTable table;
  PairLists lists;
  const std::int32_t* ids;
  const float* weights;
  int slots;

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    const int p = team.index;
    lists.rows[p] = p / slots;
    lists.positions[p] = p;
    lists.weights[p] = weights[p];
    put_group(table, lists, p, ids[p], p, 1);
  }
};

// One team.
struct SortPairs {
  static constexpr int kThreads = kMostExperts;
  ExpertTable table;
  PairLists lists;
  const std::int32_t* ids;
  const float* weights;
  int slots, pairs, groups;
  int group_rows;  // at most so many to a group

  static constexpr std::size_t kSharedBytes = 2 * kMostExperts * sizeof(std::int32_t);

  // Thread t has expert t.
  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    auto* next = reinterpret_cast<std::int32_t*>(team.shared);  // of an expert: where its next pair goes
    std::int32_t* scratch = next + kMostExperts;
    PerThread<std::int32_t, kThreads> count, end, group_end;
    team.each([&](int t) { next[t] = 0; });
    team.sync();
    team.each([&](int t) {
      for (int p = t; p < pairs; p += kThreads) add_atomically(&next[ids[p]], 1);
    });
    team.sync();
    team.each([&](int t) {
      count[t] = next[t];
      end[t] = count[t];
      group_end[t] = (count[t] + group_rows - 1) / group_rows;
    });
    scan(team, end, scratch);
    scan(team, group_end, scratch);
    const int used = scratch[kThreads - 1];
    team.each([&](int t) {
      next[t] = end[t] - count[t];
      const int of_expert = (count[t] + group_rows - 1) / group_rows;
      for (int g = 0; g < of_expert; ++g) {
        const int left = count[t] - g * group_rows;
        put_group(table, lists, group_end[t] - of_expert + g, t, end[t] - left, left < group_rows ? left : group_rows);
      }
      for (int g = used + t; g < groups; g += kThreads) put_group(table, lists, g, 0, 0, 0);
    });
    team.sync();
    team.each([&](int t) {
      for (int p = t; p < pairs; p += kThreads) {
        const int at = add_atomically(&next[ids[p]], 1);
        lists.rows[at] = p / slots;
        lists.positions[p] = at;
        lists.weights[at] = weights[p];
      }
    });
  }
};

struct CombineSlots {
  static constexpr int kThreads = 1;
  const float* outputs;  // of the pairs, sorted
  const std::int32_t* positions;
  const float* shared;  // null: none
  float* y;
  int hidden, slots;

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    const int row = team.index / hidden, d = team.index % hidden;
    const std::int32_t* of_row = positions + static_cast<std::ptrdiff_t>(row) * slots;
    float sum = slots > 0 ? outputs[static_cast<std::ptrdiff_t>(of_row[0]) * hidden + d] : 0.0F;
    for (int s = 1; s < slots; ++s) sum += outputs[static_cast<std::ptrdiff_t>(of_row[s]) * hidden + d];
    if (shared != nullptr) sum += shared[team.index];
    y[team.index] = sum;
  }
};

ExpertTable table_of(const ExpertsArgs& args) {
  SLUICE_CHECK(args.experts.size() <= kMostExperts, "no more experts than a kernel takes");
  ExpertTable table{};
  for (std::size_t e = 0; e < args.experts.size(); ++e) {
    table.gate[e] = args.experts[e].gate.packed();
    table.up[e] = args.experts[e].up.packed();
    table.down[e] = args.experts[e].down.packed();
  }
  return table;
}

}  // namespace

int groups_of(const ExpertsArgs& args, int rows, int group_rows) {
  const int pairs = rows * args.slots;
  if (pairs <= kAlonePairs) return pairs;
  return std::min(pairs, pairs / group_rows + static_cast<int>(args.experts.size()));
}

void list_pairs(const Exec& exec, const ExpertsArgs& args, int first, int rows, int group_rows,
                const PairLists& lists) {
  const int pairs = rows * args.slots;
  const std::int32_t* ids = args.expert_ids + std::ptrdiff_t{first} * args.slots;
  const float* weights = args.expert_weights + std::ptrdiff_t{first} * args.slots;
  if (pairs > kAlonePairs) {
    const int groups = groups_of(args, rows, group_rows);
    launch(exec, 1, SortPairs{table_of(args), lists, ids, weights, args.slots, pairs, groups, group_rows},
           SortPairs::kSharedBytes);
  } else {
    launch(exec, pairs, TakePairs{table_of(args), lists, ids, weights, args.slots});
  }
}

void combine_slots(const Exec& exec, const ExpertsArgs& args, int first, int rows, const float* outputs,
                   const PairLists& lists, const float* shared) {
  launch(exec, std::int64_t{rows} * args.hidden,
         CombineSlots{outputs, lists.positions, shared, args.y + std::ptrdiff_t{first} * args.hidden, args.hidden,
                      args.slots});
}

}  // namespace sluice::SLUICE_CUDA_OPS
