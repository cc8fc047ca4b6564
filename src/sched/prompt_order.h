// Rank: the order in which sequences are served. PromptOrder: sequences with rows of known tokens to compute, by rank
// and by the number of these rows. MergedOrder: two such orders as one.
// Used by scheduler.h.
#pragma once

#include <compare>
#include <cstdint>
#include <set>

#include "base/index_types.h"

namespace sluice {

// Smaller is better. Arrivals are unique, so the order never depends on an id.
struct Rank {
  bool paused = false;  // its tokens are not needed now, so it leaves first
  int priority = 0;     // 0 unless the policy looks at it
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

inline SequenceId id_of(const Rank& rank) {
  return rank.id;
}
inline SequenceId id_of(const PromptOrder::Short& key) {
  return key.rank.id;
}

// Running and waiting sequences, the smallest key first. Sequences already passed may leave their set, and others may
// enter.
template <class Key>
class MergedOrder {
 public:
  MergedOrder() = default;
  MergedOrder(const std::set<Key>& running, const std::set<Key>& waiting)
      : running_(running.begin()),
        running_end_(running.end()),
        waiting_(waiting.begin()),
        waiting_end_(waiting.end()) {}

  // The next one; a false id if there is none.
  SequenceId front(bool with_waiting) const {
    if (waiting_first(with_waiting)) return id_of(*waiting_);
    return running_ == running_end_ ? SequenceId() : id_of(*running_);
  }
  void pass(bool with_waiting) { waiting_first(with_waiting) ? ++waiting_ : ++running_; }

 private:
  bool waiting_first(bool with_waiting) const {
    return with_waiting && waiting_ != waiting_end_ && (running_ == running_end_ || *waiting_ < *running_);
  }

  typename std::set<Key>::const_iterator running_, running_end_, waiting_, waiting_end_;
};

}  // namespace sluice
