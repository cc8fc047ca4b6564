// A context that was never computed: the cached state of a sequence filled with random rows, so that steps at a depth
// can be measured without hours of prefill.
//
// Every row of every plane is normally distributed, mean 0 and variance 1 as after a norm, and coded as the model
// codes it; so no two rows are alike, and the indexer's scores differ. Compressor windows are empty. Deterministic.
// Speed is that of a real context of the same length; what is computed from it means nothing.
#pragma once

#include "engine/runner.h"
#include "sluice/status.h"

namespace sluice {

// For a new, empty sequence. Fails if a prompt of `tokens` would: memory, the longest sequence.
Status fill_with_random_state(Runner& runner, StateSlot sequence, int tokens);

}  // namespace sluice
