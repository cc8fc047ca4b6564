// HostExchange: connects the ranks of one process whose ops run on its threads, as those of emulated devices do. Each
// rank's thread shows the others where its values lie, and goes on once all have read them.
//
// Thread safety: meet() by one thread a rank; the rest by any thread.
// Used by backend.cc, kernels/composed/all_gather.cc and kernels/cpu/cpu_experts.cc.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/threads/mutex.h"
#include "kernels/device/exchange.h"

namespace sluice {

class HostExchange final : public Exchange {
 public:
  HostExchange(int ranks, std::chrono::milliseconds limit);

  int ranks() const override { return ranks_; }
  Status status() const override;

  // Shows `mine` to the others, and calls `take` with the pointers that all ranks show, in rank order; no rank
  // returns before all have taken. `exchange` says what is exchanged: the ranks have to agree. Without effect once a
  // rank has failed: then take() is not called, and status() says why.
  void meet(int rank, std::uint64_t exchange, const void* mine,
            const std::function<void(std::span<const void* const> shown)>& take);
  // Ends the group, in the name of a rank.
  void fail(int rank, const std::string& why);

 private:
  bool all_came(std::uint64_t count) const SLUICE_REQUIRES(mutex_);
  // Waits until every rank has come `count` times, within the limit; false: one has not, and the group has ended.
  bool wait_for_all(MutexLock& lock, int rank, std::uint64_t count) SLUICE_REQUIRES(mutex_);

  const int ranks_;
  const std::chrono::milliseconds limit_;
  mutable Mutex mutex_;
  Condition changed_;
  std::vector<const void*> shown_ SLUICE_GUARDED_BY(mutex_);  // by rank
  // By rank: how often it came or took, twice for each exchange.
  std::vector<std::uint64_t> came_ SLUICE_GUARDED_BY(mutex_);
  std::vector<std::uint64_t> exchange_ SLUICE_GUARDED_BY(mutex_);  // by rank
  std::string failure_ SLUICE_GUARDED_BY(mutex_);                  // empty: none
};

}  // namespace sluice
