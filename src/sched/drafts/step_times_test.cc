// Tests of what the times of real steps teach about the cost of drafts.
#include "sched/drafts/step_times.h"

#include <gtest/gtest.h>

#include <functional>

namespace sluice::step_times_test {
namespace {

constexpr DraftSource kModel = DraftSource::kMtp, kGiven = DraftSource::kCopy;

class StepTimesTest : public ::testing::Test {
 protected:
  // A row takes a fifth of a step of one row, drafting a tenth.
  StepTimesTest() : times_(limits()) {}

  static DraftLimits limits() {
    DraftLimits limits{.most = 4, .adaptive = true, .step_seconds = {}};
    for (int rows = 0; rows < 64; ++rows) limits.step_seconds.push_back(1 + 0.2 * rows);
    limits.seconds[static_cast<std::size_t>(kModel)] = 0.1;
    return limits;
  }
  // `steps` with drafts, and before each eighth one without.
  void run(int steps, int sequences, int drafts, const std::function<double(double own, double added)>& seconds) {
    for (int i = 0; i < steps; ++i) {
      const double own = 1 + 0.2 * (sequences - 1);
      if (i % 8 == 0) times_.add(sequences, 0, 0, seconds(own, 0));
      times_.add(sequences, drafts, drafts, seconds(own, 0.3 * drafts));
    }
  }
  double ratio(int sequences, DraftSource source = kModel) const {
    return times_.added(sequences, sequences, 1, source) / (source == kModel ? 0.3 : 0.2);
  }

  StepTimes times_;
};

TEST_F(StepTimesTest, AreThoseOfTheStartAtFirst) {
  EXPECT_NEAR(ratio(1), 1, 1e-6);
  EXPECT_NEAR(ratio(40, kGiven), 1, 1e-6);
  EXPECT_DOUBLE_EQ(times_.own(3), 1.4);
}

TEST_F(StepTimesTest, WhatDraftsAddIsLearnt) {
  run(32, 4, 4, [](double own, double added) { return own + 3 * added; });
  EXPECT_NEAR(ratio(4), 3, 0.01);
  EXPECT_NEAR(ratio(64), 3, 0.01);  // nothing else is known of other numbers
  EXPECT_NEAR(ratio(4, kGiven), 1, 1e-6);
  run(32, 4, 4, [](double own, double added) { return own + 0.7 * added; });
  EXPECT_NEAR(ratio(4), 0.7, 0.01);
}

// A slower machine is slower for all rows.
TEST_F(StepTimesTest, WhatAllStepsTakeLongerIsNoMatter) {
  run(64, 16, 8, [](double own, double added) { return 3 * (own + added); });
  EXPECT_NEAR(ratio(16), 1, 0.01);
}

// The other programs of the machine end while steps have drafts: these seem to take no time.
TEST_F(StepTimesTest, DraftsAreNeverFree) {
  run(16, 4, 4, [](double own, double added) { return 3 * (own + added); });
  for (int i = 0; i < 100; ++i) {
    EXPECT_GT(ratio(4), 0.49);
    times_.add(4, 4, 4, 1.6 + 1.2);
  }
}

TEST_F(StepTimesTest, ADisturbedStepIsNoMatter) {
  int step = 0;
  run(64, 4, 4, [&](double own, double added) { return (++step % 5 == 0 ? 30 : 1) * (own + added); });
  EXPECT_NEAR(ratio(4), 1, 0.01);
}

// One draft in a step of 64 rows is lost in the noise.
TEST_F(StepTimesTest, FewDraftsSayLittle) {
  int step = 0;
  run(64, 64, 1,
      [&](double own, double added) { return added == 0 ? own : (++step % 2 == 0 ? 0.9 : 1.1) * own + added; });
  EXPECT_NEAR(ratio(64), 1, 0.1);
}

TEST_F(StepTimesTest, NowAndThenAStepHasNoDrafts) {
  times_.add(2, 0, 0, 1.2);
  for (int i = 0; i < 16; ++i) {
    EXPECT_FALSE(times_.wants_plain(2));
    times_.add(2, 2, 2, 1.8);
  }
  EXPECT_TRUE(times_.wants_plain(2));
  times_.add(2, 0, 0, 1.2);
  EXPECT_FALSE(times_.wants_plain(2));
}

// A cost that is not seen again is forgotten: it may have been a disturbance.
TEST_F(StepTimesTest, WhatIsNotSeenAgainIsForgotten) {
  run(32, 4, 4, [](double own, double added) { return own + 9 * added; });
  EXPECT_GT(ratio(4), 8);
  for (int i = 0; i < 10'000; ++i) times_.add(4, 0, 0, 1.6);
  EXPECT_NEAR(ratio(4), 1, 0.01);
}

// If steps go on by themselves, one with drafts has a wait in addition to what the drafts add.
class StepTimesOfWaitsTest : public StepTimesTest {
 protected:
  StepTimesOfWaitsTest() { times_ = StepTimes(with_wait()); }

  static constexpr double kWait = 0.5;
  static DraftLimits with_wait() {
    DraftLimits with = limits();
    with.wait = kWait;
    return with;
  }
};

TEST_F(StepTimesOfWaitsTest, AWaitIsPartOfWhatDraftsAdd) {
  EXPECT_NEAR(times_.wait(4), kWait, 1e-6);
  run(32, 4, 4, [](double own, double added) { return own + added + (added > 0 ? kWait : 0); });
  EXPECT_NEAR(ratio(4), 1, 0.01);
  EXPECT_NEAR(times_.wait(4), kWait, 0.01 * kWait);
}

// Whichever source drafts, the dearer of the two sets the cost of a wait.
TEST_F(StepTimesOfWaitsTest, AWaitTakesAsMuchMoreAsDraftsDo) {
  for (const int by_model : {4, 0}) {
    times_ = StepTimes(with_wait());
    const double added = by_model > 0 ? 0.3 * 4 : 0.2 * 4;
    for (int i = 0; i < 32; ++i) {
      times_.add(4, 0, 0, 1.6);
      times_.add(4, 4, by_model, 1.6 + 3 * (added + kWait));
    }
    EXPECT_NEAR(times_.wait(4), 3 * kWait, 0.03) << by_model;
    EXPECT_NEAR(times_.wait(64), 3 * kWait, 0.03) << by_model;
  }
}

// Each without drafts costs two waits.
TEST_F(StepTimesOfWaitsTest, FewerStepsHaveNoDrafts) {
  times_.add(2, 0, 0, 1.2);
  for (int i = 0; i < 64; ++i) {
    EXPECT_FALSE(times_.wants_plain(2));
    times_.add(2, 2, 2, 2.3);
  }
  EXPECT_TRUE(times_.wants_plain(2));
}

}  // namespace
}  // namespace sluice::step_times_test
