// Used by serve/api/api_context.h, serve/observe/engine_feed.h and serve/observe/health.h.
#include "serve/http/jobs.h"

#include <utility>

#include "base/threads/mutex.h"

namespace sluice {

TaskQueue::TaskQueue(int threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

TaskQueue::~TaskQueue() {
  std::deque<std::function<void()>> dropped;
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    dropped.swap(tasks_);
  }
  ready_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void TaskQueue::run(std::function<void()> task) {
  {
    const MutexLock lock(mutex_);
    if (stopping_) return;
    tasks_.push_back(std::move(task));
  }
  ready_.notify_one();
}

void TaskQueue::work() {
  for (;;) {
    std::function<void()> task;
    {
      MutexLock lock(mutex_);
      ready_.wait(lock, [this]() SLUICE_REQUIRES(mutex_) { return stopping_ || !tasks_.empty(); });
      if (stopping_) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

bool JobRegistry::add(const std::shared_ptr<Cancellable>& job) {
  const MutexLock lock(mutex_);
  if (!closed_) jobs_.insert(job);
  return !closed_;
}

void JobRegistry::remove(const std::shared_ptr<Cancellable>& job) {
  const MutexLock lock(mutex_);
  jobs_.erase(job);
}

void JobRegistry::cancel_all() {
  std::set<std::weak_ptr<Cancellable>, std::owner_less<>> jobs;
  {
    const MutexLock lock(mutex_);
    closed_ = true;
    jobs.swap(jobs_);
  }
  for (const auto& weak : jobs) {
    if (const auto job = weak.lock()) job->cancel();
  }
}

}  // namespace sluice
