// Used by loadgen/load_run.cc and simulation.cc.
#include "sim/arrivals.h"

#include <algorithm>

namespace sluice {
namespace {

constexpr double kSecond = 1e-3;  // seconds of a millisecond

}  // namespace

Arrivals::Arrivals(const Trace& trace, int concurrency) : trace_(trace), concurrency_(concurrency) {
  const std::size_t count = trace.requests.size();
  first_.assign(count + 1, 0);
  for (std::size_t i = 0; i < count; ++i) {
    if (const int after = trace.requests[i].after; after < 0) {
      leaders_.push_back(i);
    } else {
      ++first_[static_cast<std::size_t>(after) + 1];
    }
  }
  for (std::size_t i = 0; i < count; ++i) first_[i + 1] += first_[i];
  followers_.resize(first_.back());
  std::vector<std::size_t> next(first_.begin(), first_.end() - 1);
  for (std::size_t i = 0; i < count; ++i) {
    if (trace.requests[i].after >= 0) followers_[next[static_cast<std::size_t>(trace.requests[i].after)]++] = i;
  }
}

std::optional<double> Arrivals::next_leader_time(double now) const {
  if (next_leader_ == leaders_.size()) return std::nullopt;
  if (concurrency_ == 0) return trace_.requests[leaders_[next_leader_]].arrival_ms * kSecond;
  return in_flight_ < concurrency_ ? std::optional(now) : std::nullopt;
}

bool Arrivals::follower_is_next(double now) const {
  if (due_.empty()) return false;
  const std::optional<double> leader = next_leader_time(now);
  return !leader || due_.top().first <= *leader;
}

std::optional<double> Arrivals::next_time(double now) const {
  const std::optional<double> time = follower_is_next(now) ? due_.top().first : next_leader_time(now);
  return time ? std::optional(std::max(*time, now)) : std::nullopt;
}

std::optional<std::pair<std::size_t, double>> Arrivals::take(double now) {
  if (follower_is_next(now)) {
    const auto [time, request] = due_.top();
    if (time > now) return std::nullopt;
    due_.pop();
    return std::pair(request, time);
  }
  const std::optional<double> time = next_leader_time(now);
  if (!time || *time > now) return std::nullopt;
  ++in_flight_;
  return std::pair(leaders_[next_leader_++], *time);
}

void Arrivals::ended(std::size_t request, double now) {
  for (std::size_t i = first_[request]; i < first_[request + 1]; ++i) {
    const std::size_t follower = followers_[i];
    due_.emplace(now + trace_.requests[follower].arrival_ms * kSecond, follower);
    ++in_flight_;
  }
  --in_flight_;
}

}  // namespace sluice
