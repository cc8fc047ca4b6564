// Watchdog: says in the log when the engine's loop is stuck in a step, and when it turns again.
//
// Looks once a second, by a thread of its own. Thread safety: constructed and destroyed by one thread.
// Used by serve/server.cc.
#pragma once

#include <thread>

#include "base/threads/mutex.h"
#include "sluice/engine.h"

namespace sluice {

// Judges the loop from one observation to the next.
class LoopWatch {
 public:
  explicit LoopWatch(double most_seconds) : most_seconds_(most_seconds) {}
  void look(const EngineStats& stats);

 private:
  const double most_seconds_;
  double stuck_ = 0;  // the longest that it was seen to be, of a turn that is too long; 0: none is
};

class Watchdog {
 public:
  // `engine` must outlive it. `most_seconds` > 0: of a turn of the loop.
  Watchdog(const Engine& engine, double most_seconds);
  ~Watchdog();

 private:
  void run();

  const Engine& engine_;
  const double most_seconds_;
  Mutex mutex_;
  Condition stopped_;
  bool stopping_ SLUICE_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace sluice
