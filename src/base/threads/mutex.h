// Mutex, MutexLock, Condition: std's, with the attributes by which clang's -Wthread-safety (in ./run check) proves that
// what a mutex guards is touched under it alone:
//
//   Mutex mutex_;
//   Condition changed_;
//   std::deque<Task> tasks_ SLUICE_GUARDED_BY(mutex_);
//
//   MutexLock lock(mutex_);
//   changed_.wait(lock, [this]() SLUICE_REQUIRES(mutex_) { return !tasks_.empty(); });
//
// SLUICE_REQUIRES marks a function that is called under the mutex. Other compilers read none of this.
// Source: https://clang.llvm.org/docs/ThreadSafetyAnalysis.html
// Used by many folders, among them base, cli and engine.
#pragma once

#include <condition_variable>
#include <mutex>
#include <utility>

#if defined(__clang__)
#define SLUICE_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define SLUICE_THREAD_ATTRIBUTE(x)
#endif
#define SLUICE_GUARDED_BY(mutex) SLUICE_THREAD_ATTRIBUTE(guarded_by(mutex))
#define SLUICE_REQUIRES(...) SLUICE_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define SLUICE_EXCLUDES(...) SLUICE_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))
// For a function that the analysis cannot follow; its comment says why it is right.
#define SLUICE_UNCHECKED_LOCKING SLUICE_THREAD_ATTRIBUTE(no_thread_safety_analysis)

namespace sluice {

class SLUICE_THREAD_ATTRIBUTE(capability("mutex")) Mutex {
 public:
  void lock() SLUICE_THREAD_ATTRIBUTE(acquire_capability()) { mutex_.lock(); }
  bool try_lock() SLUICE_THREAD_ATTRIBUTE(try_acquire_capability(true)) { return mutex_.try_lock(); }
  void unlock() SLUICE_THREAD_ATTRIBUTE(release_capability()) { mutex_.unlock(); }

 private:
  friend class MutexLock;
  std::mutex mutex_;
};

// Holds the mutex as long as it lives, but between unlock() and lock().
class SLUICE_THREAD_ATTRIBUTE(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) SLUICE_THREAD_ATTRIBUTE(acquire_capability(mutex)) : lock_(mutex.mutex_) {}
  ~MutexLock() SLUICE_THREAD_ATTRIBUTE(release_capability()) = default;
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;
  void lock() SLUICE_THREAD_ATTRIBUTE(acquire_capability()) { lock_.lock(); }
  void unlock() SLUICE_THREAD_ATTRIBUTE(release_capability()) { lock_.unlock(); }

 private:
  friend class Condition;
  std::unique_lock<std::mutex> lock_;
};

// A condition variable. While `ready` is asked the lock is held, so it may require the mutex.
class Condition {
 public:
  void notify_one() { condition_.notify_one(); }
  void notify_all() { condition_.notify_all(); }

  template <typename Ready>
  void wait(MutexLock& lock, Ready ready) SLUICE_UNCHECKED_LOCKING {
    condition_.wait(lock.lock_, std::move(ready));
  }
  // False if the time was over and it is not ready.
  template <typename Time, typename Ready>
  bool wait_for(MutexLock& lock, const Time& time, Ready ready) SLUICE_UNCHECKED_LOCKING {
    return condition_.wait_for(lock.lock_, time, std::move(ready));
  }

 private:
  std::condition_variable condition_;
};

}  // namespace sluice
