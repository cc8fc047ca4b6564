// Seconds of the system's clocks: CLOCK_MONOTONIC, or the processor time of this thread or process
// (CLOCK_THREAD_CPUTIME_ID, CLOCK_PROCESS_CPUTIME_ID), in which other programs do not count.
// Used by engine/step/step_time.cc, engine/step_loop.cc, loadgen/load_run.cc and src/bench/machine_probe.cc.
#pragma once

#include <ctime>

namespace sluice {

inline double clock_seconds(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace sluice
