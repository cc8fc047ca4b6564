// Arrivals: which request of a trace comes next, and when. Owns nothing of the trace, which must outlive it.
// Thread safety: one thread at a time.
// Used by loadgen/load_run.cc and simulation.cc.
#pragma once

#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include "sim/trace.h"

namespace sluice {

class Arrivals {
 public:
  // Concurrency 0: by the timestamps. Otherwise that many requests are in flight, in the order of the trace; those that
  // follow another keep their pause.
  Arrivals(const Trace& trace, int concurrency);

  // When the next request arrives, at `now` or later; no value while all wait for another one to end.
  std::optional<double> next_time(double now) const;
  // The next request that has arrived by `now`, with its time, in order of time.
  std::optional<std::pair<std::size_t, double>> take(double now);
  // `request` has ended: what follows it will arrive.
  void ended(std::size_t request, double now);

 private:
  using Follower = std::pair<double, std::size_t>;  // time, request

  std::optional<double> next_leader_time(double now) const;
  bool follower_is_next(double now) const;

  const Trace& trace_;
  int concurrency_;
  std::vector<std::size_t> leaders_;  // requests that follow none, in order
  std::size_t next_leader_ = 0;
  int in_flight_ = 0;  // chains of requests that have begun and not ended
  // The followers of request r are followers_[first_[r]] .. followers_[first_[r + 1] - 1].
  std::vector<std::size_t> first_, followers_;
  std::priority_queue<Follower, std::vector<Follower>, std::greater<>> due_;
};

}  // namespace sluice
