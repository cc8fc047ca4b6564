// Experts on a GPU: (row, slot) pairs sorted by expert into groups of rows that share a weight, the work between their
// products, and the sum of a row's slots.
// Used by kernels/cuda/shared and kernels/cuda/sm90.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/shared/linear_products.h"
#include "kernels/ops/experts.h"

namespace sluice::SLUICE_CUDA_OPS {

inline constexpr int kAlonePairs = 16;  // at most this many pairs are not sorted: each is a group of its own

// Sizes of groups: first come groups of up to rows[0] rows, then those of up to rows[1], and so on.
struct GroupSizes {
  static constexpr int kMost = 8;
  std::int32_t count = 0, rows[kMost] = {};

  SLUICE_HD int of(int group_rows) const {
    int size = 0;
    while (size + 1 < count && rows[size] < group_rows) ++size;
    return size;
  }
};

// The places of the pairs of some rows, in the workspace.
struct PairLists {
  std::int32_t* rows;               // [pairs], sorted by expert: each pair's row
  std::int32_t* positions;          // [pairs]: the place where a pair was sorted to
  float* weights;                   // [pairs], sorted: each pair's weight
  std::int32_t* experts = nullptr;  // [pairs], sorted: each pair's expert; null: not wanted
  RowGroup *gate, *up, *down;       // [groups]
  std::int32_t* used = nullptr;     // if not null: the number of groups with rows, which come first; with GroupSizes
                                    // also the first group of each size, and the end of the last
};

// The columns of y: the outputs of down, which may be a rank's share.
int output_columns(const ExpertsArgs& args);
// True if each rank of a group has only a share of the expert's m (kernels/ops/experts.h).
inline bool shares_inner(const ExpertWeights& expert) {
  return expert.gate.out() != expert.down.in();
}
// Checks that the shares of all ranks make the whole.
void check_shares(const Exec& exec, const ExpertsArgs& args);
// True if other ranks' kernels have to list pairs in the same order.
inline bool lists_in_order(const Exec& exec) {
  return exec.group.ranks > 1;
}
// Rows of m (kernels/ops/experts.h), in any input form, as words of 4 bytes: [rows, columns], `ld` words from one row
// to the next.
struct InnerWords {
  void* words;
  std::ptrdiff_t ld;
  int columns;
};
// Gathers the shares of m of all ranks: `to` has the columns of all shares. Bytes are copied unchanged.
void gather_words(const Exec& exec, int rows, const InnerWords& from, const InnerWords& to);

// Returns the most groups, of at most `group_rows` rows, of the pairs of `rows` rows; some of them may be empty.
int groups_of(const ExpertsArgs& args, int rows, int group_rows);
// Lists the pairs of the op's rows [first, first + rows). `sizes`: the largest is group_rows; or none. The places of
// pairs depend on their experts alone if lists_in_order().
void list_pairs(const Exec& exec, const ExpertsArgs& args, int first, int rows, int group_rows, const PairLists& lists,
                const GroupSizes& sizes = {});
// Computes y of these rows from the pairs' outputs as they were sorted, and from the shared expert's; null: none. Adds
// the biases of down to both.
void combine_slots(const Exec& exec, const ExpertsArgs& args, int first, int rows, const float* outputs,
                   const PairLists& lists, const float* shared);

// Computes m, the activation of gate and up times a row's weight (kernels/ops/experts.h).
struct ActivationValues {
  const float* gate;
  const float* up;
  const float* weights;  // null: 1
  int dim;
  Activation activation;
  ExpertBiases biases = {};
  const std::int32_t* experts = nullptr;  // by row, if there are biases; null: the first expert

  SLUICE_DEVICE float operator()(std::ptrdiff_t row, int d) const {
    float a = gate[row * dim + d], b = up[row * dim + d];
    const std::ptrdiff_t at = (experts != nullptr ? std::ptrdiff_t{experts[row]} * dim : 0) + d;
    if (biases.gate != nullptr) a += biases.gate[at];
    if (biases.up != nullptr) b += biases.up[at];
    return activated(activation, a, b, weights != nullptr ? weights[row] : 1.0F);
  }
};

// Hands out pieces of the workspace; without memory it counts bytes.
class Carver {
 public:
  explicit Carver(std::byte* memory) : memory_(memory) {}
  template <class T>
  T* take(std::size_t count) {
    auto* at = reinterpret_cast<T*>(memory_ + bytes_);
    bytes_ += (count * sizeof(T) + 255) / 256 * 256;
    return at;
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* memory_;
  std::size_t bytes_ = 0;
};

}  // namespace sluice::SLUICE_CUDA_OPS
