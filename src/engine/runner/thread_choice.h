// Finds the number of threads that decodes fastest here, if the user gives none. One thread a processor is too many if
// processors share cores. A virtual machine may hide that they do, so steps of one row are timed.
// Used by engine/load.cc.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/runner/runner.h"

namespace sluice {

// The numbers of threads to try, the largest first: one a processor, one a core, half and a quarter of the processors.
// If there are few processors, there is only one number.
std::vector<int> thread_candidates(int processors, int cores);

struct TimedThreads {
  int threads = 0;
  double seconds = 0;  // the time of a step of one row
};
// Returns the largest number that is at most a little slower than the fastest: prompts and batches gain from more
// threads.
int best_threads(std::span<const TimedThreads> timed);
// "16 threads: 10.2 ms a token (8: 11.0, 4: 15.1)"
std::string thread_text(std::span<const TimedThreads> timed, int threads);

// Times the candidates in turn, some tenths of a second in all, and leaves the runner with the best. Returns nothing if
// there was no choice, or nothing could be timed.
std::vector<TimedThreads> choose_threads(Runner& runner, bool pin);

}  // namespace sluice
