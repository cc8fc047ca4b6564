// JobRegistry: the generating requests that are under way, so that a shutdown can cancel them.
// Thread safety: every method may be called from any thread.
#pragma once

#include <memory>
#include <mutex>
#include <set>

namespace sluice {

class Cancellable {
 public:
  virtual ~Cancellable() = default;
  virtual void cancel() = 0;
};

class JobRegistry {
 public:
  // False after cancel_all(): the job must not start.
  [[nodiscard]] bool add(const std::shared_ptr<Cancellable>& job);
  void remove(const std::shared_ptr<Cancellable>& job);
  // Cancels every job and lets no new one start.
  void cancel_all();

 private:
  std::mutex mutex_;
  std::set<std::weak_ptr<Cancellable>, std::owner_less<>> jobs_;
  bool closed_ = false;
};

}  // namespace sluice
