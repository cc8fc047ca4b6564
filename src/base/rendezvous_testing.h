// Rendezvous: a point that a given number of threads must reach at the same time; one thread cannot pass for several.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace sluice {

class Rendezvous {
 public:
  explicit Rendezvous(int threads) : missing_(threads) {}

  // Waits until all have arrived; false if they do not within 20 seconds, after which no thread waits any more.
  bool come() {
    constexpr std::chrono::seconds kPatience{20};
    std::unique_lock lock(mutex_);
    if (--missing_ <= 0) changed_.notify_all();
    const bool met = changed_.wait_for(lock, kPatience, [this] { return missing_ <= 0 || given_up_; }) && !given_up_;
    given_up_ = !met;
    changed_.notify_all();
    return met;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int missing_;
  bool given_up_ = false;
};

}  // namespace sluice
