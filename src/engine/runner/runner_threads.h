// RunnerThreads: the threads that a runner computes with, and the cores that they are pinned to. Owns the pool of the
// Exec that it is made for. Thread safety: one thread at a time.
// Used by runner.h.
#pragma once

#include <memory>
#include <vector>

#include "base/threads/thread_pool.h"
#include "kernels/device/exec.h"

namespace sluice {

class RunnerThreads {
 public:
  explicit RunnerThreads(Exec* exec) : exec_(*exec) {}  // which must outlive it, and has its device by the first set()

  int count() const { return pool_->threads(); }
  void set(int threads);  // >= 1; changes no bit of any result
  // Pins each thread to a core of its own, if there are as many (base/threads/cpu_topology.h); set() ends that.
  void pin();
  // Pins the calling thread, which must be the one that calls run_step(), to the core left for it.
  void pin_caller() const;

 private:
  Exec& exec_;
  std::unique_ptr<ThreadPool> pool_;
  std::vector<int> cpus_;    // processors of the pinned threads, the caller's first; empty: none
  std::vector<int> usable_;  // all processors that this process may run on, once threads are pinned
};

}  // namespace sluice
