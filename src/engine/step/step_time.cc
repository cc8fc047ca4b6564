// Used by engine/load.cc and engine/runner/thread_choice.cc.
#include "engine/step/step_time.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "base/threads/clocks.h"
#include "engine/step/sampler.h"

namespace sluice {
namespace {

constexpr int kFewRows = 16, kManyRows = 64;
// Below a second by what a long context costs more, and by what else runs on the machine.
constexpr double kBound = 0.8;

// Different tokens, so that a router sends them to as many experts as those of a text.
std::vector<TokenId> some_tokens(const Runner& runner, int count) {
  std::vector<TokenId> ids(static_cast<std::size_t>(count));
  std::uint32_t state = 1;
  for (TokenId& id : ids) {
    state = state * 1664525U + 1013904223U;
    id = static_cast<TokenId>(state % runner.limits().vocab_size);
  }
  return ids;
}

// The clock for times that decide about drafts. They are compared with each other only. If this thread computes, it is
// the thread's processor time, which other programs disturb less.
clockid_t work_clock(const Runner& runner) {
  return computes_later(runner.exec()) ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID;
}

Result<double> time_step(Runner& runner, int rows) {
  const std::vector<TokenId> ids = some_tokens(runner, std::min(rows, runner.limits().max_model_len));
  SLUICE_ASSIGN_OR_RETURN(const StateSlot sequence, runner.sequences().open());
  const StepSpan span{.sequence = sequence, .ids = ids, .logit_rows = {}};
  const double start = clock_seconds(CLOCK_MONOTONIC);
  const Status status = runner.run_step({&span, 1});
  runner.exec().device->wait();
  const double seconds = clock_seconds(CLOCK_MONOTONIC) - start;
  runner.sequences().close(sequence);
  if (!status.ok()) return status;
  return seconds;
}

// A throw-away sequence after whose tokens, if there are any, steps are timed again and again.
class TimedSequence {
 public:
  static Result<TimedSequence> open(Runner& runner, clockid_t clock) {
    SLUICE_ASSIGN_OR_RETURN(const StateSlot slot, runner.sequences().open());
    return TimedSequence(&runner, slot, clock);
  }
  TimedSequence(TimedSequence&& other) noexcept
      : runner_(other.runner_), slot_(std::exchange(other.slot_, StateSlot())), clock_(other.clock_) {}
  ~TimedSequence() {
    if (slot_) runner_->sequences().close(slot_);
  }

  Status append(std::span<const TokenId> ids) {
    const StepSpan span{.sequence = slot_, .ids = ids, .logit_rows = {}};
    return runner_->run_step({&span, 1});
  }
  // With `draws` tokens drawn from its first rows of logits; nothing of it stays. The span's sequence is set.
  Result<double> time(StepSpan span, int draws) {
    span.sequence = slot_;
    std::vector<SampleRow> rows;
    const Position position = runner_->sequences().position(slot_);
    for (int i = 0; i < draws; ++i) {
      rows.push_back(sample_row(SamplingParams{}, static_cast<std::size_t>(i), position + 1 + i, -1));
    }
    const double start = clock_seconds(clock_);
    SLUICE_RETURN_IF_ERROR(runner_->begin({&span, 1}));
    if (draws > 0) {
      runner_->logits().draw(rows);
      std::ignore = runner_->logits().finish();
    }
    runner_->exec().device->wait();
    const double seconds = clock_seconds(clock_) - start;
    runner_->sequences().commit(slot_, 0);
    return seconds;
  }

 private:
  TimedSequence(Runner* runner, StateSlot slot, clockid_t clock) : runner_(runner), slot_(slot), clock_(clock) {}

  Runner* runner_;
  StateSlot slot_;
  clockid_t clock_;
};

constexpr int kContext = 128;  // tokens that the rows of small models attend to; for large ones weights are what counts
constexpr double kSmallModel = 0.003;  // seconds of a step of one row

// Such a sequence, with a context if a step is quick.
Result<TimedSequence> sequence_with_context(Runner& runner, int rows, clockid_t clock) {
  SLUICE_ASSIGN_OR_RETURN(TimedSequence sequence, TimedSequence::open(runner, clock));
  const std::vector<TokenId> ids = some_tokens(runner, kContext);
  const StepSpan one{.sequence = {}, .ids = std::span(ids).first(1), .logit_rows = {}};
  SLUICE_ASSIGN_OR_RETURN(const double first, sequence.time(one, 0));
  SLUICE_ASSIGN_OR_RETURN(const double second, sequence.time(one, 0));
  if (std::min(first, second) < kSmallModel && kContext + rows <= runner.limits().max_model_len &&
      kContext <= runner.limits().step_rows) {
    SLUICE_RETURN_IF_ERROR(sequence.append(ids));
  }
  return sequence;
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
  const int most = runner.limits().step_rows;
  // The first pass may have to fetch pages by page faults or from a disk; it counts only if it was fast all the same.
  SLUICE_ASSIGN_OR_RETURN(double few, time_step(runner, kFewRows));
  constexpr double kTooLongAgain = 1.0;
  if (few > kTooLongAgain || step_time(few, 0, most).rows == most) return step_time(few, 0, most);
  SLUICE_ASSIGN_OR_RETURN(const double again, time_step(runner, kFewRows));
  few = std::min(few, again);
  if (few > kBound || step_time(few, 0, most).rows == most) return step_time(few, 0, most);
  SLUICE_ASSIGN_OR_RETURN(const double many, time_step(runner, kManyRows));
  return step_time(few, many, most);
}

namespace {

constexpr int kDrafts = 2;  // the number of timed drafts of a model

bool drafts(const Runner& runner) {
  return runner.model().drafts() && runner.cache().pools().plan().open_states >= 2 + kDrafts;
}

// The least of a few: what two drafts add to a step of three rows.
double time_draft(TimedSequence& sequence) {
  constexpr int kTimes = 8;
  constexpr double kLongEnough = 0.1;
  const SamplingParams sampling{};
  const TokenId id = 0;
  const TokenId given[kDrafts] = {1, 2};
  double least[2] = {}, spent = 0;
  for (int i = 0; i < 2 * kTimes && (i < 2 || i % 2 == 1 || spent < kLongEnough); ++i) {
    const bool by_model = i % 2 == 1;
    StepSpan span{.sequence = {}, .ids = {&id, 1}, .logit_rows = {}};
    if (by_model) {
      span.model_drafts = kDrafts, span.sampling = &sampling;
    } else {
      span.drafts = given;
    }
    const Result<double> seconds = sequence.time(span, 0);
    if (!seconds.ok()) return 0;
    spent += *seconds;
    least[i % 2] = i < 2 ? *seconds : std::min(least[i % 2], *seconds);
  }
  return std::max(0.0, (least[1] - least[0]) / kDrafts);
}

}  // namespace

DraftTimes measure_draft_times(Runner& runner) {
  constexpr int kMostRows = 64;
  constexpr double kLongEnough = 0.5, kQuick = 0.04;  // seconds for all measurements, and for repeated ones
  constexpr int kTimesOfOne = 12;                     // repetitions of one row; more rows get proportionally fewer
  constexpr double kMostWaiting = 1;                  // seconds by the clock, if steps wait more than they compute
  std::vector<int> all_rows(kMostRows);
  std::iota(all_rows.begin(), all_rows.end(), 0);
  const int most = std::min({kMostRows, runner.limits().step_rows, runner.limits().max_model_len});
  const int most_draws = runner.cache().pools().plan().sequences;
  const std::vector<TokenId> ids = some_tokens(runner, 2 * kMostRows);
  std::vector<TimedRows> timed;
  Result<TimedSequence> sequence = sequence_with_context(runner, most, work_clock(runner));
  if (!sequence.ok()) return {};
  double spent = 0;
  std::size_t steps = 0;
  const auto time = [&](int rows) {
    const auto count = static_cast<std::size_t>(rows);
    const StepSpan span{.sequence = {},
                        .ids = std::span(ids).subspan(steps++ % kMostRows, count),  // new tokens bring other experts
                        .logit_rows = std::span(all_rows).first(count)};
    const Result<double> seconds = sequence->time(span, std::min(rows, most_draws));
    spent += seconds.ok() ? *seconds : kLongEnough;
    return seconds;
  };
  for (const int rows : {1, 2, 3, 4, 5, 6, 8, 16, kMostRows}) {
    if (rows > most || (rows > 2 && spent > kLongEnough)) break;
    const Result<double> seconds = time(rows);
    if (!seconds.ok()) break;
    timed.push_back({rows, *seconds});
  }
  // Times all again in turn, so that other programs disturb none of them alone. Each is timed several times: after a
  // step of many rows, less of a small model is left in the processor's caches than after a like step.
  const double again_from = spent, began = clock_seconds(CLOCK_MONOTONIC);
  const auto long_enough = [&] { return spent > kLongEnough || clock_seconds(CLOCK_MONOTONIC) - began > kMostWaiting; };
  double before = spent;
  do {
    before = spent;
    for (TimedRows& of : timed) {
      for (int times = of.rows > kFewRows / 2 ? 1 : std::max(2, kTimesOfOne / of.rows); times > 0; --times) {
        if (long_enough() || of.seconds > kQuick / 4) break;
        if (const Result<double> seconds = time(of.rows); seconds.ok()) of.seconds = std::min(of.seconds, *seconds);
      }
    }
  } while (spent > before && spent < again_from + kQuick && !long_enough());  // repeats rows that are quick enough
  return {.rows = row_table(timed), .draft = drafts(runner) ? time_draft(*sequence) : 0};
}

namespace {

// The median of the seconds from one step of one row to the next. With `waits` each step waits for the token of the
// step before it. 0: it failed.
double time_in_turn(Runner& runner, bool waits) {
  constexpr int kSteps = 24, kLeast = 6;
  constexpr double kLongEnough = 0.1;
  const Result<StateSlot> slot = runner.sequences().open();
  if (!slot.ok()) return 0;
  const TokenId first = 1;
  const int row = 0, most = std::min(kSteps, runner.limits().max_model_len);
  std::vector<double> seconds;
  const double began = clock_seconds(CLOCK_MONOTONIC);
  double before = began;
  for (int i = 0; i < most && (i < kLeast || before - began < kLongEnough); ++i) {
    StepSpan span{.sequence = *slot, .ids = {}, .logit_rows = {&row, 1}, .newest = i > 0};
    if (i == 0) span.ids = {&first, 1};
    if (!runner.begin({&span, 1}).ok()) break;
    if (runner.logits().draws_outstanding()) std::ignore = runner.logits().finish();
    runner.sequences().commit(*slot, 1);
    const SampleRow draw = sample_row({.temperature = 0}, 0, runner.sequences().position(*slot), slot->value);
    runner.logits().draw({&draw, 1});
    if (waits) std::ignore = runner.logits().finish();
    const double now = clock_seconds(CLOCK_MONOTONIC);
    if (i > 1) seconds.push_back(now - before);
    before = now;
  }
  if (runner.logits().draws_outstanding()) std::ignore = runner.logits().finish();
  runner.sequences().close(*slot);
  std::ranges::sort(seconds);
  return seconds.empty() ? 0 : seconds[seconds.size() / 2];
}

}  // namespace

double measure_wait(Runner& runner) {
  return std::max(0.0, time_in_turn(runner, true) - time_in_turn(runner, false));
}

std::vector<double> time_one_row(Runner& runner, int times, double most) {
  Result<TimedSequence> sequence = sequence_with_context(runner, 1, CLOCK_MONOTONIC);
  if (!sequence.ok()) return {};
  const std::vector<TokenId> ids = some_tokens(runner, times + 1);
  const int row = 0;
  std::vector<double> seconds;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto time = sequence->time({.sequence = {}, .ids = std::span(ids).subspan(i, 1), .logit_rows = {&row, 1}}, 0);
    if (!time.ok()) return {};
    if (i == 0) continue;
    if (*time > most) return {};
    seconds.push_back(*time);
  }
  return seconds;
}

std::vector<double> row_table(std::span<const TimedRows> timed) {
  std::vector<double> seconds;
  for (std::size_t i = 0; i < timed.size(); ++i) {
    // More rows take no less time: a step that was slower than one of more rows was disturbed.
    double to = timed[i].seconds;
    for (const TimedRows& more : timed.subspan(i)) to = std::min(to, more.seconds);
    const double from = seconds.empty() ? to : seconds.back();
    const auto before = static_cast<int>(seconds.size());
    for (int r = before + 1; r <= timed[i].rows; ++r) {
      seconds.push_back(from + (to - from) * (r - before) / (timed[i].rows - before));
    }
  }
  // None of the first rows is free: each takes at least half of their mean.
  const std::size_t first = std::min<std::size_t>(seconds.size(), 8);
  if (first < 2) return seconds;
  const double mean = (seconds[first - 1] - seconds[0]) / static_cast<double>(first - 1);
  const double least = std::min(mean / 2, seconds[0] / 16);
  for (std::size_t i = first - 1; i-- > 0;) seconds[i] = std::min(seconds[i], seconds[i + 1] - least);
  return seconds;
}

}  // namespace sluice
