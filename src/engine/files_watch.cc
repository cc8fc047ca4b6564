// Files of the weights that change while they are served. The step loop asks after each step, before it hands out the
// step's tokens; a thread of its own asks a few times a second, so that it is noticed while nothing runs, too.
#include <chrono>

#include "base/log.h"
#include "engine/engine_impl.h"
#include "files/served_files.h"

namespace sluice {

void EngineImpl::watch_files() {
  constexpr std::chrono::milliseconds kPause{250};
  MutexLock lock(mutex_);
  while (!watch_.wait_for(lock, kPause, [&]() SLUICE_REQUIRES(mutex_) { return stop_; })) {
    const std::shared_ptr<ServedFiles> files = files_;
    lock.unlock();
    const Status status = files->look();
    lock.lock();
    if (status.ok() || files != files_ || !changed_.ok()) continue;  // sound, replaced meanwhile, or known
    changed_ = status;
    wake_.notify_one();
  }
}

// Engine thread.
bool EngineImpl::files_are_sound() {
  const std::shared_ptr<ServedFiles> files = runner_->files();
  if (files == nullptr) return true;
  const Status status = files->check();
  if (status.ok()) return true;
  const MutexLock lock(mutex_);
  changed_ = status;
  return false;
}

// Engine thread. Ends all requests, the first time.
void EngineImpl::notice_files() {
  Status changed;
  {
    const MutexLock lock(mutex_);
    if (changed_.ok() || !broken_.ok()) return;
    changed = changed_;
  }
  log_error("all requests end, and no answer is computed until the weights are reloaded");
  fail_all(changed);
}

}  // namespace sluice
