#include <algorithm>

#include "kernels/cuda/shared/expert_lists.h"

namespace sluice::SLUICE_CUDA_OPS {
namespace {

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

}  // namespace

int groups_of(const ExpertsArgs& args, int rows, int group_rows) {
  const int pairs = rows * args.slots;
  if (pairs <= kAlonePairs) return pairs;
  return std::min(pairs, pairs / group_rows + static_cast<int>(args.experts.size()));
}

void list_pairs(const Exec& exec, const ExpertsArgs& args, int first, int rows, int group_rows, const PairLists& lists,
                const GroupSizes& sizes) {
  const int pairs = rows * args.slots;
  const std::int32_t* ids = args.expert_ids + std::ptrdiff_t{first} * args.slots;
  const float* weights = args.expert_weights + std::ptrdiff_t{first} * args.slots;
  if (pairs > kAlonePairs) {
    const int groups = groups_of(args, rows, group_rows);
    launch(exec, 1, SortPairs{table_of(args), lists, ids, weights, args.slots, pairs, groups, group_rows, sizes},
           SortPairs::kSharedBytes);
  } else {
    launch(exec, pairs, TakePairs{table_of(args), lists, ids, weights, args.slots, pairs, sizes});
  }
}

void combine_slots(const Exec& exec, const ExpertsArgs& args, int first, int rows, const float* outputs,
                   const PairLists& lists, const float* shared) {
  launch(exec, std::int64_t{rows} * args.hidden,
         CombineSlots{outputs, lists.positions, shared, args.y + std::ptrdiff_t{first} * args.hidden, args.hidden,
                      args.slots});
}

}  // namespace sluice::SLUICE_CUDA_OPS
