// sluice simulate: a trace through the scheduler and the prefix cache on a virtual clock.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/engine_setup.h"
#include "sim/workload.h"

namespace sluice {

struct SimulateOptions {
  EngineSetup engine;  // its model.folder may be a config.json
  WorkloadOptions workload;
  std::string trace;  // a file; empty: the workload
  int hash_block_tokens = 512;
  bool by_steps = false;
  double load = 0.8;    // share of what the model can bear, when the rate is 0
  int concurrency = 0;  // 0: open loop
  std::string cost = "calibrate";
  double acceptance = 0;                       // share of drafts that are right; 0: no speculation
  std::vector<std::string> policies;           // empty: the engine's own
  std::vector<std::string> without_retention;  // names of rules that are switched off
  std::string out;
};

int run_simulate(const SimulateOptions& options);

}  // namespace sluice
