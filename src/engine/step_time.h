// How many rows a step may have so that it takes less than a second: what a request waits for at most that arrives, or
// decodes, while a long prompt is computed.
#pragma once

#include "engine/runner.h"
#include "sluice/status.h"

namespace sluice {

struct StepTime {
  int rows = 0;        // a multiple of kStepRowsUnit between kFewestStepRows and runner.step_rows()
  double seconds = 0;  // about what such a step takes
};

inline constexpr int kStepRowsUnit = 32, kFewestStepRows = 64;

// Computes a few rows of a sequence that is thrown away, twice or three times: some milliseconds for a small model, and
// about a second for one that needs the bound. Changes nothing that anybody can see, only how long what follows takes.
Result<StepTime> measure_step(Runner& runner);

// The same from what passes of 16 rows and of 64 took, which is 0 if there was none.
StepTime step_time(double seconds_of_16, double seconds_of_64, int most_rows);

}  // namespace sluice
