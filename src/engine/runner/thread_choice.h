// How many threads decode fastest here, where the user does not say. One a processor is too many where threads share
// cores, which the system may tell or, in a virtual machine, not: then steps of one row are timed.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/runner/runner.h"

namespace sluice {

// The numbers to try, the largest first: one a processor, one a core, half and a quarter of the processors. One number
// where there are few processors.
std::vector<int> thread_candidates(int processors, int cores);

struct TimedThreads {
  int threads = 0;
  double seconds = 0;  // of a step of one row
};
// The largest number that is no more than a little slower than the fastest: prompts and batches want all that there
// are.
int best_threads(std::span<const TimedThreads> timed);
// "16 threads: 10.2 ms a token (8: 11.0, 4: 15.1)"
std::string thread_text(std::span<const TimedThreads> timed, int threads);

// Times the candidates in turn, some tenths of a second in all, and leaves the runner with the best. Empty if nothing
// was to choose, or nothing could be timed.
std::vector<TimedThreads> choose_threads(Runner& runner, bool pin);

}  // namespace sluice
