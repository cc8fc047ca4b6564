// Used by cli/bench/bench_command.cc and speed_report.cc.
#include "bench/rounds.h"

#include <algorithm>

#include "base/check.h"

namespace sluice {
namespace {

double floor_of(const std::vector<StepWork>& steps, const MachineSpeed& machine) {
  double seconds = 0;
  for (const StepWork& step : steps) seconds += floor_seconds(step, machine);
  return seconds;
}

class Rounds {
 public:
  Rounds(SpeedCases& tests, const RoundsOptions& options) : tests_(tests), options_(options) {}

  // Warms up, and counts what the steps of each test have to do. Tests of more sequences than decode at once are left
  // out, unless there are no others.
  Status count(const std::vector<SpeedCase>& list) {
    for (const SpeedCase& test : list) {
      SpeedRow row{.test = test, .runs = {}};
      std::vector<StepWork> works;
      if (const Status counted = tests_.run(test, &works).status(); !counted.ok()) {
        const bool too_many =
            test.kind == SpeedCase::Kind::kConcurrent && counted.code() == StatusCode::kResourceExhausted;
        if (!too_many || list.size() == result_.left_out.size() + 1) return counted;
        result_.left_out.push_back(counted.message());
        continue;
      }
      const double tokens = row.test.measured_tokens();
      row.steps = static_cast<int>(works.size());
      row.routing = tests_.routing();
      for (const StepWork& step : works) {
        row.bytes_per_token += step.bytes() / tokens;
        row.used_bytes_per_token += step.used_bytes() / tokens;
        row.cache_bytes_per_token += step.cache.bytes / tokens;
        row.experts_bytes_per_token += step.experts.bytes / tokens;
      }
      result_.rows.push_back(std::move(row));
      works_.push_back(std::move(works));
    }
    unsteady_.resize(works_.size());
    return {};
  }

  Status run() {
    result_.probes.push_back(options_.probe());
    for (int round = 0; report_progress(); ++round) {
      for (std::size_t i = 0; i < works_.size(); ++i) {
        const std::size_t index = round % 2 == 0 ? i : works_.size() - 1 - i;
        if (!finished(index)) SLUICE_RETURN_IF_ERROR(run_one(index));
      }
    }
    return {};
  }

  // Once more each, as tracing takes time.
  void trace() {
    for (std::size_t i = 0; i < works_.size(); ++i) {
      const Result<std::vector<KernelTime>> times = tests_.trace(result_.rows[i].test);
      if (!times.ok()) {
        result_.no_kernel_times = times.status().message();
        return;
      }
      result_.rows[i].kernels = step_kernels(*times, works_[i], median(result_.probes));
    }
  }

  RoundsResult finish() {
    for (std::size_t i = 0; i < works_.size(); ++i) {
      SpeedRow& row = result_.rows[i];
      row.steady = !row.runs.empty();
      if (!row.steady) row.runs = std::move(unsteady_[i]);
    }
    return std::move(result_);
  }

 private:
  bool finished(std::size_t index) const {
    const SpeedRow& row = result_.rows[index];
    return static_cast<int>(row.runs.size()) >= options_.rounds || row.voided >= options_.rounds;
  }

  // Reports the progress and returns whether there is more to do.
  bool report_progress() {
    bool more = false;
    int done = 0;
    for (std::size_t i = 0; i < works_.size(); ++i) {
      more = more || !finished(i);
      done += finished(i) ? options_.rounds : static_cast<int>(result_.rows[i].runs.size());
    }
    if (options_.progress) options_.progress(done, options_.rounds * static_cast<int>(works_.size()));
    return more;
  }

  Status run_one(std::size_t index) {
    SpeedRow& row = result_.rows[index];
    const MachineSpeed before = result_.probes.back();
    SLUICE_ASSIGN_OR_RETURN(const double seconds, tests_.run(row.test));
    const MachineSpeed after = options_.probe();
    result_.probes.push_back(after);
    const MachineSpeed machine = mean(before, after);
    const SpeedRun run{.seconds = seconds,
                       .floor_seconds = floor_of(works_[index], machine),
                       .machine = machine,
                       .stages = tests_.stages()};
    const bool steady = before.difference(after) <= kSteady;
    (steady ? row.runs : unsteady_[index]).push_back(run);
    row.voided += !steady;
    report_progress();
    return {};
  }

  SpeedCases& tests_;
  const RoundsOptions& options_;
  RoundsResult result_;
  std::vector<std::vector<StepWork>> works_;
  std::vector<std::vector<SpeedRun>> unsteady_;
};

double median_of(const std::vector<SpeedRun>& runs, const std::function<double(const SpeedRun&)>& value) {
  std::vector<double> values;
  for (const SpeedRun& run : runs) values.push_back(value(run));
  return median(std::move(values));
}

}  // namespace

double median(std::vector<double> values) {
  SLUICE_CHECK(!values.empty(), "nothing has no median");
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double SpeedRow::tokens_per_second() const {
  return median_of(runs, [&](const SpeedRun& run) { return test.measured_tokens() / run.seconds; });
}

double SpeedRow::floor_tokens_per_second() const {
  return median_of(runs, [&](const SpeedRun& run) { return test.measured_tokens() / run.floor_seconds; });
}

double SpeedRow::percent_of_floor() const {
  return median_of(runs, [](const SpeedRun& run) { return 100 * run.floor_seconds / run.seconds; });
}

int SpeedRow::uneven() const {
  return static_cast<int>(std::ranges::count_if(runs, [](const SpeedRun& run) { return run.machine.uneven(); }));
}

StageTimes SpeedRow::stages() const {
  StageTimes mean{};
  const int all = steps * static_cast<int>(runs.size());
  for (std::size_t i = 0; i < mean.size(); ++i) {
    for (const SpeedRun& run : runs) mean[i] += run.stages[i];
    StageTime& stage = mean[i];
    if (all > 0)
      stage = {stage.seconds / all, stage.waiting / all, stage.alone / all, stage.forks / all, stage.calls / all};
  }
  return mean;
}

Result<RoundsResult> run_rounds(SpeedCases& tests, const std::vector<SpeedCase>& list, const RoundsOptions& options) {
  Rounds rounds(tests, options);
  SLUICE_RETURN_IF_ERROR(rounds.count(list));
  if (options.stages) tests.measure_stages();
  SLUICE_RETURN_IF_ERROR(rounds.run());
  if (options.kernel_times) rounds.trace();
  return rounds.finish();
}

}  // namespace sluice
