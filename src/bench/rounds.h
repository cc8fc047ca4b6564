// Rounds: tests run repeatedly in turn, with the machine's speed measured before, between and after them, so that a
// figure never refers to the machine's speed at another time.
//
// A test of more sequences than decode at once is left out, unless there is no other, which is an error.
//
// Each round runs every test once, every second round in the opposite order. A run whose probes before and after it
// differ by more than kSteady does not count; the test gets another one, unless `rounds` runs already did not count.
// Ratios are taken run by run, and their medians are reported. Thread safety: one thread at a time.
// Used by cli/bench/bench_command.cc and speed_report.cc.
#pragma once

#include <boost/json/object.hpp>
#include <functional>
#include <string>
#include <vector>

#include "bench/speed_case.h"
#include "bench/step_kernels.h"

namespace sluice {

inline constexpr double kSteady = 0.10;

struct SpeedRun {
  double seconds = 0, floor_seconds = 0;
  MachineSpeed machine;  // the mean of the probes before and after
  StageTimes stages{};   // empty if not measured
};

struct SpeedRow {
  SpeedCase test;
  std::vector<SpeedRun> runs;  // the runs that count
  int voided = 0;
  bool steady = true;  // false: no run had steady probes, so all of them count
  double bytes_per_token = 0, used_bytes_per_token = 0, cache_bytes_per_token = 0;
  double experts_bytes_per_token = 0;
  int steps = 0;             // steps of a run
  StepKernels kernels = {};  // empty if not traced
  RoutingCount routing{};

  double tokens_per_second() const;  // the median
  double floor_tokens_per_second() const;
  double percent_of_floor() const;  // the median of ratios
  int uneven() const;               // runs with uneven threads
  StageTimes stages() const;        // for one step, the mean of all runs
};

struct RoundsOptions {
  int rounds = 5;
  bool stages = false;
  bool kernel_times = false;                          // measured after the tests
  std::function<MachineSpeed()> probe;                // speed of what the tests run on
  std::function<void(int done, int total)> progress;  // counts runs; may be null
};

struct RoundsResult {
  std::vector<SpeedRow> rows;         // in the order of the tests
  std::vector<std::string> left_out;  // tests of more sequences than decode at once, with the reason
  std::vector<MachineSpeed> probes;   // in order of time
  std::string no_kernel_times;        // why kernel times that were asked for are missing
};

Result<RoundsResult> run_rounds(SpeedCases& tests, const std::vector<SpeedCase>& list, const RoundsOptions& options);

double median(std::vector<double> values);  // at least one value

// The output of `sluice bench`: a table, JSON and a picture. Thread safety: pure functions.

// The table, with the machine's speed above it, and the runs that did not count below it.
std::string to_text(const RoundsResult& result);

// The same tests on several numbers of threads, one after the other. Each has a line, whose ratios are to the fastest
// of fewer threads. Results slower than that by more than kSlower are marked.
struct ThreadsResult {
  int threads = 0;
  RoundsResult result;
};
inline constexpr double kSlower = 0.03;
std::string threads_text(const std::vector<ThreadsResult>& results);

// {"read_gbytes", "f32_gflops", "bf16_gflops", "int8_gops", "tiles_gflops", "thread_ratio"}
boost::json::object to_json(const MachineSpeed& speed);

// {"probes": .., "rows": [{"test", "depth", "tokens", "concurrency", "tokens_per_second", "bytes_per_token",
// "floor_tokens_per_second", "percent_of_floor", ...}]}; docs/benchmarks.md explains each.
boost::json::object to_json(const RoundsResult& result);

// An SVG by kind of test: tokens a second next to the floor, and percent of it.
std::string to_svg(const RoundsResult& result, const std::string& title);

}  // namespace sluice
