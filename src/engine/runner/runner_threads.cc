// Used by runner.h.
#include "engine/runner/runner_threads.h"

#include <pthread.h>

#include "base/threads/cpu_topology.h"
#include "base/threads/shared_cores.h"
#include "engine/runner/device_choice.h"

namespace sluice {

void RunnerThreads::set(int threads) {
  exec_.device->wait();                                       // for what the threads are working on
  if (!cpus_.empty()) pin_thread(::pthread_self(), usable_);  // new threads may run where this one may
  pool_ = std::make_unique<ThreadPool>(threads);
  exec_.pool = pool_.get();
  cpus_.clear();
}

void RunnerThreads::pin() {
  if (usable_.empty()) usable_ = usable_cpus();
  if (pool_->threads() < 2) return cpus_.clear();
  cpus_ = pinned_cpus(pool_->threads(), computes_later(exec_) ? order_cpus(usable_) : known_cpu_order(usable_));
  if (!cpus_.empty()) pool_->pin(cpus_);
}

void RunnerThreads::pin_caller() const {
  if (!cpus_.empty()) pin_thread(::pthread_self(), cpus_.front());
}

}  // namespace sluice
