// Finds how many rows a step may have to take less than a second. A request that arrives, or decodes, waits at most
// that long for a step of a long prompt.
// Used by engine/load.cc and engine/runner/thread_choice.cc.
#pragma once

#include <span>
#include <vector>

#include "engine/runner/runner.h"
#include "sluice/status.h"

namespace sluice {

struct StepTime {
  int rows = 0;        // a multiple of kStepRowsUnit between kFewestStepRows and runner.limits().step_rows
  double seconds = 0;  // about the time of such a step
};

inline constexpr int kStepRowsUnit = 32, kFewestStepRows = 64;

// Computes a few rows of a throw-away sequence two or three times: some milliseconds for a small model, about a second
// for one that needs the bound. Changes no result, only how long later steps take.
Result<StepTime> measure_step(Runner& runner);

// Measures the times, except for DraftTimes::wait, for the scheduler's choice of drafts (sched/drafts/drafts.h), for a
// few numbers of rows. It goes on to more rows only while less than half a second of work is spent, as a program that
// answers one prompt pays for it, too. Short
// steps are measured several times, as all later answers depend on them.
DraftTimes measure_draft_times(Runner& runner);

// Returns the seconds of `times` steps of one row of a throw-away sequence, after one that is not counted. Empty if it
// failed, or if one took more than `most` seconds.
std::vector<double> time_one_row(Runner& runner, int times, double most);

// Measures how many seconds longer a step of one row takes if its token is waited for before the next step is enqueued.
double measure_wait(Runner& runner);

struct TimedRows {
  int rows = 0;
  double seconds = 0;
};
// Makes DraftTimes::rows from the times of ascending numbers of rows, the first of one row. Between them it
// interpolates, and each of the first eight rows adds some time.
std::vector<double> row_table(std::span<const TimedRows> timed);

// Derives the StepTime from the times of passes of 16 and of 64 rows; 0: not measured.
StepTime step_time(double seconds_of_16, double seconds_of_64, int most_rows);

}  // namespace sluice
