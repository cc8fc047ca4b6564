// Used by kernels/cuda/shared and kernels/cuda/sm90.
#include <algorithm>

#include "kernels/cuda/shared/expert_lists.h"
#include "kernels/ops/ops.h"

namespace sluice::SLUICE_CUDA_OPS {
namespace {

// Adds to the down products the biases of a row's experts, each times the pair's weight.
struct DownBiases {
  const float *routed = nullptr, *shared = nullptr;
  const std::int32_t* ids = nullptr;
  const float* weights = nullptr;
};

// Sums slots in their order, for kValues consecutive outputs, whose loads are under way at once.
template <int kValues, bool kBiased>
struct CombineSlots {
  static constexpr int kThreads = 1, kAtOnce = 8;
  struct alignas(kValues * sizeof(float)) Values {
    float of[kValues];
  };
  const float* outputs;  // the pairs' outputs, sorted
  const std::int32_t* positions;
  const float* shared;  // null: there is no shared expert
  float* y;
  int columns, slots;
  DownBiases biases;

  SLUICE_DEVICE float bias(std::ptrdiff_t pair, int d) const {
    return biases.weights[pair] * biases.routed[std::ptrdiff_t{biases.ids[pair]} * columns + d];
  }
  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    const int pieces = columns / kValues, row = team.index / pieces, d = team.index % pieces * kValues;
    const std::int32_t* of_row = positions + static_cast<std::ptrdiff_t>(row) * slots;
    const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(row) * columns + d;
    Values sum{}, of_shared{};
    if (shared != nullptr) of_shared = *reinterpret_cast<const Values*>(shared + at);
    for (int first = 0; first < slots; first += kAtOnce) {
      Values of[kAtOnce];
      SLUICE_UNROLL
      for (int s = 0; s < kAtOnce; ++s) {
        if (first + s >= slots) continue;
        of[s] = *reinterpret_cast<const Values*>(outputs + static_cast<std::ptrdiff_t>(of_row[first + s]) * columns + d);
      }
      SLUICE_UNROLL
      for (int s = 0; s < kAtOnce; ++s) {
        if (first + s >= slots) continue;
        for (int i = 0; kBiased && biases.routed != nullptr && i < kValues; ++i) {
          of[s].of[i] += bias(static_cast<std::ptrdiff_t>(row) * slots + first + s, d + i);
        }
        const bool alone = first + s == 0;  // a sum of one term is that term, so that -0 stays -0
        for (int i = 0; i < kValues; ++i) sum.of[i] = alone ? of[s].of[i] : sum.of[i] + of[s].of[i];
      }
    }
    for (int i = 0; i < kValues && shared != nullptr; ++i) {
      if (kBiased && biases.shared != nullptr) of_shared.of[i] += biases.shared[d + i];
      sum.of[i] += of_shared.of[i];
    }
    *reinterpret_cast<Values*>(y + at) = sum;
  }
};

}  // namespace

int output_columns(const ExpertsArgs& args) {
  if (!args.experts.empty()) return args.experts[0].down.out();
  return args.shared != nullptr ? args.shared->down.out() : args.hidden;
}

void check_shares(const Exec& exec, const ExpertsArgs& args) {
  const auto check = [&](const ExpertWeights& expert) {
    SLUICE_CHECK(!shares_inner(expert) || expert.gate.out() * exec.group.ranks == expert.down.in(),
                 "the shares of gate and up of all ranks are what down multiplies");
    SLUICE_CHECK(expert.down.out() == output_columns(args), "all experts have the same outputs");
  };
  if (args.slots > 0) check(args.experts[0]);
  if (args.shared != nullptr) check(*args.shared);
}

void gather_words(const Exec& exec, int rows, const InnerWords& from, const InnerWords& to) {
  const auto as_rows = [](const InnerWords& of) {
    return Rows{.values = static_cast<float*>(of.words), .ld = of.ld, .columns = of.columns};
  };
  exec.ops->all_gather(exec, AllGatherArgs{.rows = rows, .from = as_rows(from), .to = as_rows(to)});
}

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
    const auto sort = [&]<bool kInOrder>() {
      using Sort = SortPairsAs<kInOrder>;
      launch(exec, 1, Sort{table_of(args), lists, ids, weights, args.slots, pairs, groups, group_rows, sizes},
             Sort::kSharedBytes);
    };
    lists_in_order(exec) ? sort.template operator()<true>() : sort.template operator()<false>();
  } else {
    launch(exec, pairs, TakePairs{table_of(args), lists, ids, weights, args.slots, pairs, sizes});
  }
}

void combine_slots(const Exec& exec, const ExpertsArgs& args, int first, int rows, const float* outputs,
                   const PairLists& lists, const float* shared) {
  const int columns = output_columns(args);
  float* y = args.y + std::ptrdiff_t{first} * columns;
  const auto aligned = [](const float* at) { return reinterpret_cast<std::uintptr_t>(at) % (4 * sizeof(float)) == 0; };
  const std::ptrdiff_t pair = std::ptrdiff_t{first} * args.slots;
  const DownBiases biases{args.biases.down, args.shared_biases.down, args.expert_ids + pair,
                          args.expert_weights + pair};
  const auto run = [&]<int kValues, bool kBiased>() {
    launch(exec, std::int64_t{rows} * columns / kValues,
           CombineSlots<kValues, kBiased>{outputs, lists.positions, shared, y, columns, args.slots, biases});
  };
  const bool wide = columns % 4 == 0 && aligned(outputs) && aligned(y) && aligned(shared);
  if (biases.routed != nullptr || biases.shared != nullptr) return run.template operator()<1, true>();
  wide ? run.template operator()<4, false>() : run.template operator()<1, false>();
}

}  // namespace sluice::SLUICE_CUDA_OPS
