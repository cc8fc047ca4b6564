// What is learnt of how long steps take.
#include "sched/step_times.h"

#include <gtest/gtest.h>

#include <cmath>

namespace sluice::step_times_test {
namespace {

// A step of one row takes a second, each further one a tenth.
DraftLimits limits() {
  DraftLimits limits{.most = 8, .adaptive = true, .step_seconds = {}};
  for (int rows = 0; rows < 64; ++rows) limits.step_seconds.push_back(1 + 0.1 * rows);
  return limits;
}

// Drafts that add half of what was measured: learnt to a few percent, though each step is only said to be above or
// below.
TEST(StepTimes, LearnsWhatDraftsAdd) {
  StepTimes times(limits());
  for (int i = 0; i < 300; ++i) times.add(1, 4, 4, 1 + 0.5 * 0.4);
  EXPECT_NEAR(times.added(1, 1, 4, DraftSource::kMtp), 0.5 * 0.4, 0.1 * 0.2);
  EXPECT_DOUBLE_EQ(times.own(1), 1);
  EXPECT_DOUBLE_EQ(times.added(1, 1, 4, DraftSource::kCopy), 0.4) << "the model's alone";
  EXPECT_DOUBLE_EQ(times.added(8, 8, 4, DraftSource::kMtp), 0.4) << "of so few sequences alone";
  EXPECT_NEAR(times.added(1, 32, 4, DraftSource::kMtp), 0.5 * 0.4, 0.1 * 0.2) << "behind a prompt's rows too";
}

TEST(StepTimes, LearnsWhatStepsWithoutDraftsTake) {
  StepTimes times(limits());
  for (int i = 0; i < 300; ++i) times.add(4, 0, 0, 3 * 1.3);
  EXPECT_NEAR(times.own(4), 3 * 1.3, 0.1 * 3.9);
  EXPECT_DOUBLE_EQ(times.own(1), 1);
}

// Of drafts of both sources nobody knows whose time it was.
TEST(StepTimes, StepsOfBothSourcesTeachNothing) {
  StepTimes times(limits());
  for (int i = 0; i < 100; ++i) times.add(2, 6, 3, 50);
  for (const DraftSource source : {DraftSource::kMtp, DraftSource::kCopy}) {
    EXPECT_NEAR(times.added(2, 2, 4, source), 0.4, 1e-9);
  }
}

// Who has no drafts any more, as they were dear once, finds them as they were measured after some thousand steps.
TEST(StepTimes, ForgetsWhatNobodyTries) {
  StepTimes times(limits());
  for (int i = 0; i < 300; ++i) times.add(1, 1, 0, 1 + 2.0);
  EXPECT_GT(times.added(1, 1, 1, DraftSource::kCopy), 1);
  for (int i = 0; i < 40'000; ++i) times.add(1, 0, 0, 1 + 0.01 * (i % 2));
  EXPECT_LT(times.added(1, 1, 1, DraftSource::kCopy), 0.11);
}

}  // namespace
}  // namespace sluice::step_times_test
