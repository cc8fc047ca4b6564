// sluice bench: how fast a model runs here, compared with what the machine allows. docs/benchmarks.md says how to read
// it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/engine_setup.h"

namespace sluice {

struct BenchOptions {
  EngineSetup engine;  // model.folder as given; "": the embedded model
  std::vector<int> prefill = {512}, decode = {64}, depth = {0}, concurrency = {1};
  int concurrent_prompt = 32, concurrent_tokens = 16;
  std::vector<double> acceptance;  // shares of drafts that are right; none: no speculation
  std::vector<int> threads;        // each counts of them in turn; none: --threads of the engine
  bool stages = false;             // measured by stage
  bool kernel_times = false;       // and by kernel, on a GPU
  int rounds = 5;
  std::int64_t probe_size = 0;  // bytes a thread; 0: 1 GB, or less where memory is short
  std::string json;             // "": no files
  bool probe_only = false;      // the machine's speed as JSON, and no model
};

int run_bench(const BenchOptions& options);

}  // namespace sluice
