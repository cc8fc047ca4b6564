// Work outside the network thread: tasks, and the requests that are under way.
// Used by serve/api/api_context.h, serve/observe/engine_feed.h and serve/observe/health.h.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "base/threads/mutex.h"

namespace sluice {

// TaskQueue: threads that run tasks in the order of arrival, for work that takes too long for the network thread.
// Thread safety: run() may be called from any thread.

class TaskQueue {
 public:
  explicit TaskQueue(int threads);
  ~TaskQueue();  // drops tasks that have not begun and waits for the others

  void run(std::function<void()> task);

 private:
  void work();

  Mutex mutex_;
  Condition ready_;
  std::deque<std::function<void()>> tasks_ SLUICE_GUARDED_BY(mutex_);
  bool stopping_ SLUICE_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

// JobRegistry: the generating requests that are under way, so that a shutdown can cancel them.
// Thread safety: every method may be called from any thread.

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
  Mutex mutex_;
  std::set<std::weak_ptr<Cancellable>, std::owner_less<>> jobs_ SLUICE_GUARDED_BY(mutex_);
  bool closed_ SLUICE_GUARDED_BY(mutex_) = false;
};

}  // namespace sluice
