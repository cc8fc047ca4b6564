// Checks of EngineOptions that need no model, and the values that "0" stands for.
#pragma once

#include "sluice/engine.h"
#include "sluice/status.h"

namespace sluice {

// The message names the flag, its range and the value.
Status validate(const EngineOptions& options);

int resolve_threads(const EngineOptions& options);                  // 0: one per usable core
std::size_t resolve_kv_cache_memory(const EngineOptions& options);  // 0: a quarter of the usable memory

}  // namespace sluice
