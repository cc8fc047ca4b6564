// Used by backend.cc, kernels/composed/all_gather.cc and kernels/cpu/cpu_experts.cc.
#include "kernels/device/host_exchange.h"

#include <fmt/format.h>

#include <algorithm>

namespace sluice {

HostExchange::HostExchange(int ranks, std::chrono::milliseconds limit)
    : ranks_(ranks),
      limit_(limit),
      shown_(static_cast<std::size_t>(ranks)),
      came_(static_cast<std::size_t>(ranks)),
      exchange_(static_cast<std::size_t>(ranks)) {}

Status HostExchange::status() const {
  const MutexLock lock(mutex_);
  return failure_.empty() ? Status() : internal_error(failure_);
}

void HostExchange::fail(int rank, const std::string& why) {
  {
    const MutexLock lock(mutex_);
    if (failure_.empty()) failure_ = fmt::format("rank {} of {}: {}", rank, came_.size(), why);
  }
  changed_.notify_all();
}

bool HostExchange::all_came(std::uint64_t count) const {
  return std::ranges::all_of(came_, [count](std::uint64_t times) { return times >= count; });
}

bool HostExchange::wait_for_all(MutexLock& lock, int rank, std::uint64_t count) {
  changed_.wait_for(lock, limit_, [&]() SLUICE_REQUIRES(mutex_) { return !failure_.empty() || all_came(count); });
  if (all_came(count)) return true;
  if (failure_.empty()) {
    const auto missing = std::ranges::find_if(came_, [&](std::uint64_t times) { return times < count; });
    failure_ =
        fmt::format("rank {} of {} did not come to exchange {} within {} ms (--collective-timeout), rank {} waited",
                    missing - came_.begin(), came_.size(), count / 2, limit_.count(), rank);
    changed_.notify_all();
  }
  return false;
}

void HostExchange::meet(int rank, std::uint64_t exchange, const void* mine,
                        const std::function<void(std::span<const void* const>)>& take) {
  const auto me = static_cast<std::size_t>(rank);
  MutexLock lock(mutex_);
  if (!failure_.empty()) return;
  shown_[me] = mine, exchange_[me] = exchange;
  const std::uint64_t count = ++came_[me];
  if (all_came(count)) changed_.notify_all();
  if (!wait_for_all(lock, rank, count)) return;
  // All ranks have come, and none goes on before all have read the values. So all ranks come to the same result below.
  const auto other = std::ranges::find_if(exchange_, [&](std::uint64_t of) { return of != exchange; });
  if (other != exchange_.end()) {
    if (failure_.empty()) {
      failure_ = fmt::format("rank {} of {} came to another exchange than rank {}: a fault of this program",
                             other - exchange_.begin(), came_.size(), rank);
    }
    changed_.notify_all();
    return;
  }
  const std::vector<const void*> shown = shown_;
  lock.unlock();
  take(shown);
  lock.lock();
  const std::uint64_t taken = ++came_[me];
  if (all_came(taken)) changed_.notify_all();
  changed_.wait(lock, [&]() SLUICE_REQUIRES(mutex_) { return all_came(taken); });
}

}  // namespace sluice
