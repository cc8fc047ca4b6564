// How many rows a step may have to take less than a second: the longest that a request which arrives, or decodes, waits
// for a step of a long prompt.
#pragma once

#include <span>
#include <vector>

#include "engine/runner/runner.h"
#include "sluice/status.h"

namespace sluice {

struct StepTime {
  int rows = 0;        // a multiple of kStepRowsUnit between kFewestStepRows and runner.step_rows()
  double seconds = 0;  // about what such a step takes
};

inline constexpr int kStepRowsUnit = 32, kFewestStepRows = 64;

// Computes a few rows of a throw-away sequence two or three times: some milliseconds for a small model, about a second
// for one that needs the bound. Changes no result, only how long later steps take.
Result<StepTime> measure_step(Runner& runner);

struct DraftTimes {
  std::vector<double> rows;  // [rows - 1]: seconds of a step of so many of one sequence, tokens drawn from all of them
  double draft = 0;          // seconds that a token drafted by the model takes; 0 where it drafts none
};
// For the scheduler's choice of drafts (sched/drafts/drafts.h). Measured at few numbers of rows, and no further than
// half a second allows: a program that answers one prompt pays for it, too. What takes little time is measured several
// times, as all later answers depend on it.
DraftTimes measure_draft_times(Runner& runner);

// Seconds of so many steps of one row of a throw-away sequence, after one that is not counted; empty: it failed, or one
// took more than `most` seconds.
std::vector<double> time_one_row(Runner& runner, int times, double most);

// How much longer a step of one row takes if its token is waited for before the next one is enqueued.
double measure_wait(Runner& runner);

struct TimedRows {
  int rows = 0;
  double seconds = 0;
};
// That table from times of ascending numbers of rows, the first of one row; between them lines, and more for more rows
// of the first eight.
std::vector<double> row_table(std::span<const TimedRows> timed);

// The same from the times of passes of 16 and of 64 rows; 0: not measured.
StepTime step_time(double seconds_of_16, double seconds_of_64, int most_rows);

}  // namespace sluice
