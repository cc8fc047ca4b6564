// Simulation: a trace through the real scheduler and the real prefix cache (engine/step/stepper.h, over a null model),
// on a virtual clock that a cost model moves on with each step. The same input gives the same result, to the last
// digit, on every machine.
//
// Requests arrive at their times (open loop) or, with a concurrency, as others end, so that the same number is always
// in flight (a conversation counts from its first request to the end of its last, pauses included). A step sees the
// requests that arrived before it began; its tokens exist when it ends. Thread safety: a simulation uses the calling
// thread only.
// Used by cli/commands/simulate_command.cc and report.h.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "cache/pages/retention.h"
#include "model/cache_layout.h"
#include "model/engine_setup.h"
#include "sim/cost_model.h"
#include "sim/percentiles.h"
#include "sim/trace.h"
#include "sluice/status.h"

namespace sluice {

// The model whose memory the requests live in.
struct SimulatedModel {
  CacheLayout cache_layout;
  int max_position_embeddings = 0;
};

struct SimulationOptions {
  EngineSetup engine;  // limits, policy and cache; the model's own options are ignored
  CostModel cost;
  RetentionRules retention;
  double acceptance = 0;  // the part of drafts that are right, if those before them were; 0: no drafts
  int concurrency = 0;    // 0: requests arrive at their times
  // Requests arrive, fork and are cancelled at the steps that the trace says, whatever the time: with the engine's own
  // options the plans are those of the engine that recorded it (telemetry/exports.h), from an empty cache and without
  // drafts.
  bool by_steps = false;
  std::function<void(const StepPlan&)> on_plan;  // called at each step; may be empty
  bool audit_at_end = false;
  std::function<void(std::size_t done, std::size_t total)> on_progress;  // may be empty
};

// Times in seconds since the start.
struct RequestRecord {
  double arrival = 0, admitted = 0, first_token = 0, end = 0;
  double longest_gap = 0;  // between two of its tokens
  int input_tokens = 0, output_tokens = 0, cached_tokens = 0;
  bool refused = false;  // can never run with these limits

  double queue_seconds() const { return admitted - arrival; }
  double first_token_seconds() const { return first_token - arrival; }
  double end_to_end_seconds() const { return end - arrival; }
};

struct MemoryPoint {
  double time = 0;
  int running = 0, waiting = 0;
  int latent_used = 0, latent_cached = 0, window_used = 0, window_cached = 0;  // pages
};

struct SimulationResult {
  std::vector<RequestRecord> requests;  // in the order of the trace
  LogHistogram token_gaps;              // between one token of a request and its next
  std::vector<MemoryPoint> memory;      // a few thousand points over the run
  EngineStats stats;                    // at the end
  double seconds = 0;                   // on the virtual clock
  double longest_step = 0;
  std::uint64_t steps = 0, rows = 0;
};

Result<SimulationResult> simulate(const Trace& trace, const SimulatedModel& model, const SimulationOptions& options);

}  // namespace sluice
