#include "engine/step_time.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

namespace sluice {
namespace {

constexpr int kFewRows = 16, kManyRows = 64;
// Below a second by what a long context costs more, and by what else runs on the machine.
constexpr double kBound = 0.8;

// Of rows of different tokens, so that a router sends them to as many experts as those of a text.
Result<double> time_step(Runner& runner, int rows, std::span<const int> logit_rows = {}) {
  std::vector<TokenId> ids(static_cast<std::size_t>(std::min(rows, runner.max_model_len())));
  std::uint32_t state = 1;
  for (TokenId& id : ids) {
    state = state * 1664525U + 1013904223U;
    id = static_cast<TokenId>(state % runner.vocab_size());
  }
  SLUICE_ASSIGN_OR_RETURN(const StateSlot sequence, runner.open());
  const StepSpan span{.sequence = sequence, .ids = ids, .logit_rows = logit_rows};
  const auto start = std::chrono::steady_clock::now();
  const Status status = runner.run_step({&span, 1});
  runner.wait();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  runner.close(sequence);
  if (!status.ok()) return status;
  return seconds;
}

}  // namespace

StepTime step_time(double seconds_of_16, double seconds_of_64, int most_rows) {
  // Seconds by rows as a line. More rows than were measured take no longer than it says: in a mixture of experts the
  // rows between the two passes bring experts that later ones share.
  double row = seconds_of_16 / kFewRows, weights = 0;
  if (seconds_of_64 > 0) {
    row = std::clamp((seconds_of_64 - seconds_of_16) / (kManyRows - kFewRows), 0.0, seconds_of_64 / kManyRows);
    weights = seconds_of_64 - kManyRows * row;
  }
  int rows = most_rows;
  if (weights + row * most_rows > kBound) {
    const double fitting = std::max(0.0, kBound - weights) / std::max(row, kBound / most_rows / 2);
    rows = static_cast<int>(std::min<double>(fitting, most_rows)) / kStepRowsUnit * kStepRowsUnit;
    rows = std::min(most_rows, std::max(rows, kFewestStepRows));
  }
  return {.rows = rows, .seconds = weights + rows * row};
}

Result<StepTime> measure_step(Runner& runner) {
  const int most = runner.step_rows();
  // The first pass brings pages that a page fault or a disk is behind; it counts only if it was fast all the same.
  SLUICE_ASSIGN_OR_RETURN(double few, time_step(runner, kFewRows));
  constexpr double kTooLongAgain = 1.0;
  if (few > kTooLongAgain || step_time(few, 0, most).rows == most) return step_time(few, 0, most);
  SLUICE_ASSIGN_OR_RETURN(const double again, time_step(runner, kFewRows));
  few = std::min(few, again);
  if (few > kBound || step_time(few, 0, most).rows == most) return step_time(few, 0, most);
  SLUICE_ASSIGN_OR_RETURN(const double many, time_step(runner, kManyRows));
  return step_time(few, many, most);
}

// The least of a few: what two drafts add to a step of three rows.
double measure_draft(Runner& runner) {
  constexpr int kDrafts = 2, kTimes = 3;
  if (!runner.model().drafts() || runner.pools().plan().open_states < 2 + kDrafts) return 0;
  const SamplingParams sampling{};
  const TokenId id = 0;
  const TokenId given[kDrafts] = {1, 2};
  double least[2] = {};
  for (int i = 0; i < 2 * kTimes; ++i) {
    const bool by_model = i % 2 == 1;
    const Result<StateSlot> sequence = runner.open();
    if (!sequence.ok()) return 0;
    StepSpan span{.sequence = *sequence, .ids = {&id, 1}, .logit_rows = {}};
    if (by_model) {
      span.model_drafts = kDrafts, span.sampling = &sampling;
    } else {
      span.drafts = given;
    }
    const auto start = std::chrono::steady_clock::now();
    const Status status = runner.begin({&span, 1});
    runner.wait();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (status.ok()) runner.settle(*sequence, 0);
    runner.close(*sequence);
    if (!status.ok()) return 0;
    least[i % 2] = i < 2 ? seconds : std::min(least[i % 2], seconds);
  }
  return std::max(0.0, (least[1] - least[0]) / kDrafts);
}

std::vector<double> measure_few_rows(Runner& runner) {
  constexpr int kMostRows = 64, kFew = 8;
  constexpr double kLongEnough = 0.5;
  std::vector<int> all_rows(kMostRows);
  std::iota(all_rows.begin(), all_rows.end(), 0);
  std::vector<double> seconds;
  double spent = 0;
  for (const int rows : {1, 2, 3, 4, 5, 6, kFew, 16, kMostRows}) {
    if (rows > std::min(runner.step_rows(), runner.max_model_len()) || (rows > 2 && spent > kLongEnough)) break;
    double best = 0;
    for (int i = 0; i < (rows <= kFew ? 2 : 1) && (i == 0 || spent < kLongEnough); ++i) {
      const Result<double> time = time_step(runner, rows, std::span(all_rows).first(static_cast<std::size_t>(rows)));
      if (!time.ok()) return seconds;
      best = i == 0 ? *time : std::min(best, *time);
      spent += *time;
    }
    // Between those that were measured a line; never less than for fewer rows, whatever else the machine did.
    const double from = seconds.empty() ? best : seconds.back(), to = std::max(best, from);
    const auto before = static_cast<int>(seconds.size());
    for (int r = before + 1; r <= rows; ++r) seconds.push_back(from + (to - from) * (r - before) / (rows - before));
  }
  return seconds;
}

}  // namespace sluice
