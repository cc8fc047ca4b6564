#include "serve/job_registry.h"

#include <utility>

namespace sluice {

bool JobRegistry::add(const std::shared_ptr<Cancellable>& job) {
  const std::lock_guard lock(mutex_);
  if (!closed_) jobs_.insert(job);
  return !closed_;
}

void JobRegistry::remove(const std::shared_ptr<Cancellable>& job) {
  const std::lock_guard lock(mutex_);
  jobs_.erase(job);
}

void JobRegistry::cancel_all() {
  std::set<std::weak_ptr<Cancellable>, std::owner_less<>> jobs;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    jobs.swap(jobs_);
  }
  for (const auto& weak : jobs) {
    if (const auto job = weak.lock()) job->cancel();
  }
}

}  // namespace sluice
