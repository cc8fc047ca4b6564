// Rank: who goes first. PromptOrder: sequences with rows of known tokens to compute, by rank and by how few these are.
#pragma once

#include <compare>
#include <cstdint>
#include <set>

#include "base/index_types.h"

namespace sluice {

// Smaller is better. Arrivals are unique, so the order never depends on an id.
struct Rank {
  int priority = 0;  // 0 unless the policy looks at it
  std::int64_t arrival = 0;
  SequenceId id;

  friend auto operator<=>(const Rank&, const Rank&) = default;
};

class PromptOrder {
 public:
  struct Short {
    int rows = 0;  // still to compute
    Rank rank;

    friend auto operator<=>(const Short&, const Short&) = default;
  };

  void insert(const Rank& rank, int rows) {
    by_rank_.insert(rank);
    by_rows_.insert({rows, rank});
  }
  void erase(const Rank& rank, int rows) {
    by_rank_.erase(rank);
    by_rows_.erase({rows, rank});
  }
  bool empty() const { return by_rank_.empty(); }
  int size() const { return static_cast<int>(by_rank_.size()); }
  const std::set<Rank>& by_rank() const { return by_rank_; }
  const std::set<Short>& by_rows() const { return by_rows_; }

 private:
  std::set<Rank> by_rank_;
  std::set<Short> by_rows_;
};

}  // namespace sluice
