// The load that a model can bear, from its cost model alone, to choose the rate of a synthetic trace.
// Used by cli/commands/simulate_command.cc.
#pragma once

#include "model/engine_setup.h"
#include "sim/cost_model.h"
#include "sim/trace.h"

namespace sluice {

// Leading requests (those that follow none) a second that could be answered with every step full, if nothing were
// cached and memory had no limit. A load of 0.8 of it leaves short queues.
double bearable_rate(const Trace& trace, const CostModel& cost, const EngineSetup& engine);

}  // namespace sluice
