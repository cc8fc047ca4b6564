// Checks of EngineSetup that need no model, and the values that "0" stands for.
// Used by cli, engine, sim and verify.
#pragma once

#include <cstddef>

#include "cache/memory_plan.h"
#include "cache/pages/page_geometry.h"
#include "model/engine_setup.h"
#include "sluice/status.h"

namespace sluice {

// The message names the flag, its range and the value.
Status validate(const EngineSetup& options);

// Returns whether a step begins before the tokens of the previous one are known (Stepper).
bool resolve_async_scheduling(const EngineSetup& options, bool device_computes_later);
// Returns whether a step then waits for them if drafts pay.
bool waits_where_drafts_pay(const EngineSetup& options, bool device_computes_later);

// The most tokens drafted for a sequence in a step; 0 without speculation.
int most_drafts(const EngineSetup& options);

// --no-enable-chunked-prefill needs room for the longest prompt in one step.
Status check_unchunked(const EngineSetup& options, int max_model_len, const PageGeometry& geometry,
                       const MemoryPlan& plan);

// The most rows of one step; 0: `unset`, which a runner lowers to the rows that take under a second (step_time.h).
int resolve_step_rows(const EngineSetup& options, int unset = kMostStepRows);
int resolve_threads(const EngineSetup& options);                  // 0: one per usable core
std::size_t resolve_kv_cache_memory(const EngineSetup& options);  // 0: a quarter of the usable memory

}  // namespace sluice
