// CostModel: the time of a step, as a sum of few terms. A simulation's clock runs on it.
//
//   seconds = step + weights * R / (R + half_rows) + row * R + span * S + context * C + read * D + draft * G
//   R  rows of the step, drafts included
//   S  spans (sequences in the step)
//   C  over all rows: the tokens before the row
//   D  over all spans: the tokens before the span
//   G  drafted rows
// `weights` is the time to read all weights of a mixture of experts: few rows touch few experts, and at `half_rows`
// rows half of them are read. `context` is attention's arithmetic, `read` its memory traffic: the bytes that a row
// reads of its cache for one token of context, over the bandwidth. A dense model has its weights in `step`.
// Thread safety: a plain value.
// Used by calibrate.cc, cli/commands/simulate_command.cc, load_estimate.h and simulation.h.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/runner/runner.h"
#include "sched/step_plan.h"
#include "sluice/status.h"

namespace sluice {

struct CostModel {
  double step = 0, weights = 0, half_rows = 1, row = 0, span = 0, context = 0, read = 0, draft = 0;

  double step_seconds(const StepPlan& plan) const;
  // The seconds of a step of `rows` rows of sequences without a context, and without drafts.
  double rows_seconds(int rows) const { return step + weights * rows / (rows + half_rows) + row * rows; }
  // "step=0.0186,weights=0.031,...": parse_cost() reads it.
  std::string text() const;

  bool operator==(const CostModel&) const = default;
};

// A preset by its name, "term=seconds,..." with the terms above (those left out are 0, half_rows 1), or a file with
// one JSON object of them.
Result<CostModel> parse_cost(const std::string& text);

// Presets are modelled after published measurements, not measured by us; docs/dev/scheduler.md names these.
struct CostPreset {
  const char* name;
  const char* what;
  CostModel cost;
};
const std::vector<CostPreset>& cost_presets();

// Calibration: a cost model from a few seconds of measurements of a real model.

// One measured step: the sums of CostModel, and its time.
struct CostSample {
  double rows = 0, spans = 0, context = 0, read = 0;
  double seconds = 0;
};

// The terms (none below 0) with the least sum of squared relative errors.
CostModel fit_cost(std::span<const CostSample> samples);

// Measures steps of several shapes, for about `seconds`. The runner's sequences are as before afterwards.
Result<std::vector<CostSample>> measure_steps(Runner* runner, int max_batched_tokens, double seconds);

// Root of the mean squared relative error of `cost` over the samples.
double cost_error(const CostModel& cost, std::span<const CostSample> samples);

}  // namespace sluice
