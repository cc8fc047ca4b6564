#include "engine/step/step_time.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "base/threads/clocks.h"
#include "engine/fake_model_testing.h"

namespace sluice::step_time_test {
namespace {

// In this thread's processor time, which is what is measured where it computes.
void compute_for(double seconds) {
  const double end = clock_seconds(CLOCK_THREAD_CPUTIME_ID) + seconds;
  while (clock_seconds(CLOCK_THREAD_CPUTIME_ID) < end) {
  }
}

TEST(StepTime, FastModelsTakeTheMostRows) {
  EXPECT_EQ(step_time(0.001, 0, 512).rows, 512);
  EXPECT_EQ(step_time(0.1, 0.1, 512).rows, 512);  // it was the pages' first time
}

TEST(StepTime, TheStepIsBelowASecond) {
  for (double row = 0.0005; row < 0.012; row *= 1.1) {
    for (const double weights : {0.0, 0.01, 0.1, 0.3}) {  // seconds to read them
      const double few = weights + 16 * row, many = weights + 64 * row;
      const StepTime step = step_time(few, many, 512);
      EXPECT_EQ(step.rows % kStepRowsUnit, 0);
      EXPECT_GE(step.rows, kFewestStepRows);
      EXPECT_LE(step.rows, 512);
      const double takes = weights + step.rows * row;
      if (step.rows > kFewestStepRows) {
        EXPECT_LT(takes, 1.0) << row << " " << weights;
      }
      if (step.rows < 512) {
        EXPECT_GT(takes + weights + kStepRowsUnit * row, 0.5) << row << " " << weights;
      }
    }
  }
}

TEST(StepTime, SlowModelsGetTheFewestRows) {
  EXPECT_EQ(step_time(3.0, 0, 512).rows, kFewestStepRows);
  EXPECT_EQ(step_time(1.0, 4.0, 512).rows, kFewestStepRows);
  EXPECT_EQ(step_time(1.0, 4.0, 40).rows, 40);  // never more than there may be
}

TEST(StepTime, LeavesTheRunnerAsItWas) {
  EngineSetup options;
  options.model.max_model_len = 40;  // fewer than a pass has rows
  options.cache.kv_cache_memory = 64 << 20;
  const auto runner = Runner::create(std::make_unique<FakeModel>(), nullptr, options).value();
  EXPECT_EQ(runner->limits().step_rows, kMostStepRows);
  const auto step = measure_step(*runner);
  ASSERT_TRUE(step.ok()) << step.status().message();
  EXPECT_EQ(step.value().rows, kMostStepRows);
  EXPECT_EQ(runner->cache().pools().bytes_used(), 0U);
  EXPECT_TRUE(runner->sequences().audit().ok());
}

// A step that something else disturbed counts as one of more rows that was not, and costs a little less than that.
TEST(StepTime, TheTableOfRowsRises) {
  const TimedRows timed[] = {{1, 5.0}, {2, 2.0}, {4, 3.0}, {6, 9.0}, {8, 5.0}};
  EXPECT_EQ(row_table(timed), (std::vector<double>{1.875, 2, 2.5, 3, 4, 4.75, 4.875, 5}));
  const TimedRows wide[] = {{1, 2.0}, {4, 3.0}, {8, 4.0}, {10, 4.0}, {12, 4.0}};
  EXPECT_EQ(row_table(wide).size(), 12U);
  EXPECT_EQ(row_table(wide).at(8), 4);
  EXPECT_TRUE(row_table({}).empty());
}

TEST(StepTime, FewRowsAreTimed) {
  EngineSetup options;
  options.cache.kv_cache_memory = 64 << 20;
  const auto runner = Runner::create(std::make_unique<FakeModel>(), nullptr, options).value();
  const std::vector<double> table = measure_draft_times(*runner).rows;
  ASSERT_EQ(table.size(), 64U);
  EXPECT_GT(table.front(), 0);
  EXPECT_TRUE(std::ranges::is_sorted(table));
  EXPECT_EQ(runner->cache().pools().bytes_used(), 0U);
}

// Slow steps are timed once, and the measurement ends though all of them take less than half a second.
TEST(StepTime, SlowRowsAreTimedOnce) {
  int steps = 0;
  FakeModel::Settings settings;
  settings.on_step = [&](const StepTables&) {
    ++steps;
    compute_for(0.026);
  };
  EngineSetup options;
  options.cache.kv_cache_memory = 64 << 20;
  options.model.max_model_len = 8;
  const auto runner = Runner::create(std::make_unique<FakeModel>(settings), nullptr, options).value();
  EXPECT_EQ(measure_draft_times(*runner).rows.size(), 8U);
  EXPECT_EQ(steps, 2 + 7) << "of one row before it, then 1, 2, 3, 4, 5, 6 and 8";
}

// Steps that wait, for a disk or for other threads, take next to no processor time: the clock ends what is timed again.
TEST(StepTime, StepsThatWaitAreTimedForASecondOrSo) {
  int steps = 0;
  FakeModel::Settings settings;
  settings.on_step = [&](const StepTables&) {
    ++steps;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  };
  EngineSetup options;
  options.cache.kv_cache_memory = 64 << 20;
  options.model.max_model_len = 8;
  const auto runner = Runner::create(std::make_unique<FakeModel>(settings), nullptr, options).value();
  EXPECT_EQ(measure_draft_times(*runner).rows.size(), 8U);
  EXPECT_LE(steps, 2 + 7 + 100 + 4) << "a second holds a hundred";
}

// The least time of a number of rows counts: the others were disturbed.
TEST(StepTime, TheLeastTimeOfARowCounts) {
  int steps = 0;
  FakeModel::Settings settings;
  settings.on_step = [&](const StepTables&) {
    if (++steps > 2 + 3) compute_for(0.015);
  };
  EngineSetup options;
  options.cache.kv_cache_memory = 64 << 20;
  options.model.max_model_len = 3;
  const auto runner = Runner::create(std::make_unique<FakeModel>(settings), nullptr, options).value();
  const std::vector<double> table = measure_draft_times(*runner).rows;
  ASSERT_EQ(table.size(), 3U);
  EXPECT_GT(steps, 2 + 3) << "they are timed again";
  EXPECT_LT(table.back(), 0.015);
}

// Six steps at least of either kind: those that wait for the token of the one before, and those that do not.
TEST(StepTime, AWaitIsTimedInStepsThatFollowEachOther) {
  int steps = 0;
  FakeModel::Settings settings;
  settings.on_step = [&](const StepTables&) { ++steps; };
  EngineSetup options;
  options.cache.kv_cache_memory = 64 << 20;
  const auto runner = Runner::create(std::make_unique<FakeModel>(settings), nullptr, options).value();
  EXPECT_GE(measure_wait(*runner), 0);
  EXPECT_GE(steps, 2 * 6);
  EXPECT_EQ(runner->cache().pools().bytes_used(), 0U);
}

TEST(StepTime, WhatADraftOfTheModelTakes) {
  constexpr double kDraft = 0.001;
  for (const bool drafts : {true, false}) {
    FakeModel::Settings settings{.drafts = drafts};
    settings.on_draft = [](TokenId, Position, float*) { compute_for(kDraft); };
    EngineSetup options;
    options.cache.kv_cache_memory = 64 << 20;
    options.model.max_model_len = 64;
    options.speculation = {.speculative = drafts ? Speculative::kMtp : Speculative::kOff, .num_speculative_tokens = 4};
    const auto runner = Runner::create(std::make_unique<FakeModel>(settings), nullptr, options).value();
    const double draft = measure_draft_times(*runner).draft;
    EXPECT_GE(draft, drafts ? 0.9 * kDraft : 0);
    EXPECT_LE(draft, drafts ? 3 * kDraft : 0);
    EXPECT_EQ(runner->cache().pools().bytes_used(), 0U);
  }
}

}  // namespace
}  // namespace sluice::step_time_test
