// Used by serve/server.cc.
#include "serve/guard/watchdog.h"

#include <algorithm>
#include <chrono>

#include "base/log.h"
#include "base/threads/mutex.h"

namespace sluice {

Watchdog::Watchdog(const Engine& engine, double most_seconds)
    : engine_(engine), most_seconds_(most_seconds), thread_([this] { run(); }) {}

Watchdog::~Watchdog() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  stopped_.notify_all();
  thread_.join();
}

void Watchdog::run() {
  const std::chrono::duration<double> period(std::min(1.0, most_seconds_ / 4));
  LoopWatch watch(most_seconds_);
  MutexLock lock(mutex_);
  while (!stopped_.wait_for(lock, period, [this]() SLUICE_REQUIRES(mutex_) { return stopping_; }))
    watch.look(engine_.stats());
}

void LoopWatch::look(const EngineStats& stats) {
  if (stats.turn_seconds > most_seconds_) {
    if (stuck_ == 0) {
      log_error("the engine has been in step {} for {:.1f} s ({} sequences run, {} wait); /health/live fails",
                stats.steps + 1, stats.turn_seconds, stats.running, stats.waiting);
    }
    stuck_ = stats.turn_seconds;
  } else if (stuck_ > 0) {
    log_warning("the engine goes on; a step took over {:.1f} s", stuck_);
    stuck_ = 0;
  }
}

}  // namespace sluice
