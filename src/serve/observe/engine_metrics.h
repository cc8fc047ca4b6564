// The metrics of the engine: what its counters say when they are read.
// Used by server_metrics.cc.
#pragma once

#include "sluice/engine.h"
#include "telemetry/metrics.h"

namespace sluice {

// `stats` is read whenever the metrics are, and must outlive them.
void add_engine_metrics(Metrics& metrics, const EngineStats& stats);

}  // namespace sluice
