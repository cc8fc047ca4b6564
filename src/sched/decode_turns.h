// DecodeTurns: chooses the decoding sequences that a step must serve if there may be more of them than its rows.
//
// A step can serve C sequences. Up to C of them are served in every step. More take turns by deadlines: a sequence that
// is served in step t, or begins to decode with it, while n sequences decode, is served again no later than in step
// t + ceil(n / C). The earliest deadline goes first; of equal ones the sequence that has waited longest. Only steps
// that serve decodes count (step()).
//
// These deadlines can always be met, and rows are left for others whenever they can be met all the same. Let N(k) be
// the number of sequences with a deadline not later than k steps after the next one. The deadlines can be met by
// serving the earliest first if and only if N(k) <= C (k + 1) for all k >= 0; call the smallest difference, at most C,
// the slack. Then:
//   - A new deadline keeps it: with n present, N(k) <= n <= C (k + 1) for k >= ceil(n / C) - 1, and a smaller N(k) does
//     not see the new one. That holds however many are added at once (forks).
//   - A removal only lowers N.
//   - A step that serves the first C - slack (or more, any) keeps it: if all of N(k) are served, N'(k - 1) = 0; else
//     N'(k - 1) <= N(k) - C + slack <= C k, as slack <= C (k + 1) - N(k). Removed instead of served is the same.
// So due() is C - slack, or all of them when they are at most C.
//
// Costs: everything is linear in the number of sequences, without allocation once the vectors have grown.
// Used by scheduler.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/index_types.h"

namespace sluice {

class DecodeTurns {
 public:
  explicit DecodeTurns(int per_step) : per_step_(per_step) {}  // >= 1

  int size() const { return static_cast<int>(turns_.size()); }
  // In the order of turns; i < size().
  SequenceId operator[](int i) const { return turns_[static_cast<std::size_t>(i)].id; }

  // Adds a sequence as if the last step had served it.
  void add(SequenceId id);
  void remove(SequenceId id);

  // The number of sequences, from the front, that the next step must serve; it may serve more.
  int due() const;
  // Reports that a step served the sequences for which `served(id)` is true.
  template <class Served>
  void step(const Served& served);

 private:
  struct Turn {
    SequenceId id;
    std::int64_t deadline;
  };

  std::int64_t rounds(int sequences) const { return (sequences + per_step_ - 1) / per_step_; }
  std::vector<Turn>::iterator behind(std::int64_t deadline);

  int per_step_;
  std::int64_t clock_ = 1;   // the number of the next step
  std::vector<Turn> turns_;  // by deadline
  std::vector<Turn> served_;
};

template <class Served>
void DecodeTurns::step(const Served& served) {
  const std::int64_t deadline = clock_ + rounds(size());
  served_.clear();
  std::size_t kept = 0;
  for (const Turn& turn : turns_) {
    if (served(turn.id)) {
      served_.push_back({turn.id, deadline});
    } else {
      turns_[kept++] = turn;
    }
  }
  turns_.resize(kept);
  turns_.insert(behind(deadline), served_.begin(), served_.end());
  ++clock_;
}

}  // namespace sluice
