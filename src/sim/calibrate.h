// Calibration: a cost model from a few seconds of measurements of a real model.
#pragma once

#include <span>

#include "engine/runner.h"
#include "sim/cost_model.h"
#include "sluice/status.h"

namespace sluice {

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
