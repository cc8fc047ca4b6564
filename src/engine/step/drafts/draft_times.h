// DraftTimes: what a start has measured of steps, for the scheduler's choice of drafts (sched/drafts/drafts.h). A
// Runner holds them for the Stepper. Thread safety: plain values.
// Used by engine/runner/runner.h.
#pragma once

#include <vector>

namespace sluice {

struct DraftTimes {
  // [rows - 1]: about the seconds of a step of `rows` rows of one sequence, each with a draw; empty: not measured.
  std::vector<double> rows = {};
  double draft = 0;  // about the seconds of a token that the model drafts; 0: not measured, or it drafts none
  double wait = 0;  // about how many seconds longer a step takes if the next is enqueued only once its tokens are known
};

}  // namespace sluice
