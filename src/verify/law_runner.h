// What both halves of the proof ask of a Runner. Thread safety: the runner's.
#pragma once

#include <cstdint>

#include "engine/runner.h"
#include "sluice/status.h"

namespace sluice {

// Checks what must hold when no sequence is left: the audit passes, and no page, place or swap space is in use.
Status check_at_rest(const Runner& runner);
// An error if the runner then has another number of threads.
Status use_threads(Runner& runner, int threads);
// Cached pages that were given to others since the pools were made.
std::uint64_t evictions(const Runner& runner);

}  // namespace sluice
