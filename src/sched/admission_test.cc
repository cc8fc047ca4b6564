// Who may start to run: memory, the watermark, prefix hits and waits for them, bypassing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "sched/scheduler_world_testing.h"
#include "sched/told_memory_testing.h"

namespace sluice::admission_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

SchedulerLimits limits(int pages, int budget = 600) {
  return scarce_limits(pages, budget, 40);
}

SequenceId id(int i) {
  return SequenceId(i);
}

std::vector<int> admitted(const StepPlan& plan) {
  std::vector<int> ids;
  for (const Admission& a : plan.admissions) ids.push_back(a.sequence.value);
  return ids;
}

TEST(AdmissionTest, TheSecondPromptWaitsForAPoolOfOnePage) {
  SchedulerWorld w(limits(1));
  w.add(0, {4, 3});
  w.add(1, {4, 3});
  EXPECT_THAT(admitted(w.step()), ElementsAre(0));
  EXPECT_THAT(admitted(w.step()), IsEmpty());
  w.step();
  EXPECT_FALSE(w.alive(0));
  EXPECT_THAT(admitted(w.step()), ElementsAre(1));
}

TEST(AdmissionTest, WindowPagesLimitWhoRuns) {
  SchedulerLimits l = limits(100);
  l.window_pages = 5;  // two sequences of two pages
  SchedulerWorld w(l);
  for (int i = 0; i < 3; ++i) w.add(i, {4, 5});
  EXPECT_THAT(admitted(w.step()), ElementsAre(0, 1));
  w.end(0);
  EXPECT_THAT(admitted(w.step()), ElementsAre(2));
}

TEST(AdmissionTest, ThePagesOfAnAdmittedPromptArePromised) {
  SchedulerWorld w(limits(4, 100));
  w.add(0, {384, 1});  // three pages, taken one after the other
  w.step();
  w.add(1, {129, 1});  // two, but one only is not promised
  w.add(2, {128, 1});
  EXPECT_EQ(w.memory.free_latent_pages(), 3);
  EXPECT_THAT(admitted(w.step()), ElementsAre(2));
  w.steps(6);
  EXPECT_EQ(w.scheduler.running() + w.scheduler.waiting(), 0);
}

TEST(AdmissionTest, TheAnswerIsNotReserved) {
  SchedulerWorld w(limits(10));
  for (int i = 0; i < 10; ++i) w.add(i, {50, 1000});
  EXPECT_EQ(admitted(w.step()).size(), 10U);
}

TEST(AdmissionTest, TheWatermarkStaysFreeUnlessNothingRuns) {
  SchedulerLimits l = limits(10);
  l.watermark_pages = 2;
  SchedulerWorld w(l);
  w.add(0, {512, 9});  // 4
  w.add(1, {512, 9});  // 4, and 2 are left
  w.add(2, {10, 9});
  EXPECT_THAT(admitted(w.step()), ElementsAre(0, 2));  // half of the rows to the oldest, then the shortest
  w.steps(8);
  EXPECT_FALSE(w.alive(0));
  SchedulerWorld alone(l);
  alone.add(0, {1200, 9});  // all 10
  EXPECT_THAT(admitted(alone.step()), ElementsAre(0));
}

TEST(AdmissionTest, TheWatermarkIsOnePageOfAHundredByDefault) {
  for (const auto& [pages, watermark] : std::vector<std::pair<int, int>>{{10, 1}, {199, 1}, {400, 4}}) {
    SchedulerLimits l = limits(pages, 100000);
    l.watermark_pages = -1;
    l.max_model_len = 1 << 20;
    SchedulerWorld w(l);
    w.add(0, {128, 9});
    w.add(1, {(pages - 1 - watermark) * 128, 1});
    EXPECT_THAT(admitted(w.step()), ElementsAre(0, 1)) << pages;
    SchedulerWorld over(l);
    over.add(0, {128, 9});
    over.add(1, {(pages - 1 - watermark) * 128 + 1, 1});
    EXPECT_THAT(admitted(over.step()), ElementsAre(0)) << pages;
  }
}

TEST(AdmissionTest, OnlySomePassTheOldestThatFindsNoRoom) {
  SchedulerWorld w(limits(40));
  w.add(0, {39 * 128 - 100, 90});
  for (int i = 0; i < 12; ++i) w.step();
  ASSERT_EQ(w.scheduler.running(), 1);
  w.add(1, {256, 1});  // 39 of 40 pages are taken
  int passed = 0;
  for (int i = 2; i < 40; ++i) {
    w.add(i, {10, 1});
    passed += static_cast<int>(admitted(w.step()).size());
  }
  EXPECT_EQ(passed, Scheduler::kMaxBypasses);
  EXPECT_EQ(w.scheduler.waiting(), 39 - Scheduler::kMaxBypasses);
  w.end(0);
  EXPECT_EQ(admitted(w.step()).front(), 1);
  EXPECT_EQ(w.scheduler.waiting(), 0);
}

TEST(AdmissionTest, EndingAWaitingSequenceLetsTheNextOneGo) {
  SchedulerLimits l = limits(2);
  l.policy = SchedulingPolicy::kFcfs;
  SchedulerWorld w(l);
  w.add(0, {10, 9});
  w.step();
  w.add(1, {200, 1});
  w.add(2, {10, 1});
  EXPECT_THAT(admitted(w.step()), IsEmpty());
  w.end(1);
  EXPECT_THAT(admitted(w.step()), ElementsAre(2));
}

// --- Prefix hits ---

TEST(PrefixHitTest, OnlyTheSuffixIsComputed) {
  SchedulerWorld w(limits(20));
  w.add(0, {300, 1}, 1, 256);
  w.step();
  ASSERT_EQ(w.memory.cached_pages(), 2);
  w.add(1, {330, 1}, 1, 256);
  const StepPlan plan = w.step();
  EXPECT_THAT(plan.admissions, ElementsAre(Admission{id(1), false, 256}));
  EXPECT_THAT(plan.spans, ElementsAre(Span{id(1), 256, 74, true}));
}

TEST(PrefixHitTest, AtLeastOneTokenIsComputed) {
  SchedulerWorld w(limits(20));
  w.add(0, {256, 1}, 1, 256);
  w.step();
  w.add(1, {256, 1}, 1, 256);
  // Both pages are shared; rows 128 to 254 are computed for their windows only.
  EXPECT_THAT(w.step().spans, ElementsAre(Span{id(1), 128, 128, true}));
}

TEST(PrefixHitTest, APromptOfOneTokenNeverHits) {
  SchedulerWorld w(limits(20));
  for (int i = 0; i < 3; ++i) {
    w.add(i, {1, 1}, 1, 1);
    EXPECT_THAT(w.step().spans, ElementsAre(Span{id(i), 0, 1, true}));
  }
}

TEST(PrefixHitTest, SharedPagesCountOnce) {
  SchedulerWorld w(limits(6));
  w.add(0, {520, 50}, 1, 512);  // five pages
  w.step();
  w.add(1, {520, 50}, 1, 512);  // four of them, and a sixth
  EXPECT_THAT(admitted(w.step()), ElementsAre(1));
  EXPECT_EQ(w.memory.free_latent_pages(), 0);
}

TEST(PrefixHitTest, CachedPagesThatNobodyHoldsCountAsTaken) {
  SchedulerWorld w(limits(6));
  w.add(0, {520, 1}, 1, 512);
  w.step();
  ASSERT_EQ(w.memory.cached_pages(), 4);
  ASSERT_EQ(w.memory.free_latent_pages(), 6);
  w.add(1, {130, 9}, 2, 0);  // two pages
  w.step();
  w.add(2, {520, 9}, 1, 512);  // five, four of which are among the four that are free
  EXPECT_THAT(admitted(w.step()), IsEmpty());
  w.end(1);
  EXPECT_THAT(admitted(w.step()), ElementsAre(2));
}

TEST(PrefixHitTest, APreemptedSequenceComesBackByItsPrefix) {
  SchedulerWorld w(limits(20));
  w.add(0, {300, 50}, 1, 300);
  w.steps(5);
  w.scheduler.force_preemption();
  EXPECT_EQ(w.step().preemptions.size(), 1U);
  const StepPlan plan = w.step();
  EXPECT_THAT(plan.admissions, ElementsAre(Admission{id(0), false, 256}));
  EXPECT_THAT(plan.spans, ElementsAre(Span{id(0), 256, 49, true}));  // the suffix, and five tokens of the answer
}

// --- Waiting for a prefix that another one computes ---

TEST(ShareWaitTest, TheSecondOfTwoWaitsForTheFirst) {
  SchedulerWorld w(limits(40, 256));
  w.add(0, {520, 3}, 1, 512);
  w.add(1, {520, 3}, 1, 512);
  EXPECT_THAT(admitted(w.step()), ElementsAre(0));
  EXPECT_THAT(admitted(w.step()), IsEmpty());
  EXPECT_THAT(w.step().admissions, ElementsAre(Admission{id(1), false, 512}));
}

TEST(ShareWaitTest, ItWaitsAlsoForOneOfItsOwnPlan) {
  SchedulerWorld w(limits(40, 2000));
  w.add(0, {520, 3}, 1, 512);
  w.add(1, {520, 3}, 1, 512);
  w.add(2, {520, 3}, 2, 512);
  const StepPlan plan = w.step();
  EXPECT_THAT(admitted(plan), ElementsAre(0, 2));
  EXPECT_THAT(plan.waits, ElementsAre(id(1)));
  EXPECT_THAT(w.step().admissions, ElementsAre(Admission{id(1), false, 512}));
}

TEST(ShareWaitTest, OneThatWaitsDoesNotHoldUpOthers) {
  SchedulerLimits l = limits(40, 256);
  l.policy = SchedulingPolicy::kFcfs;
  SchedulerWorld w(l);
  w.add(0, {300, 3}, 1, 256);
  w.add(1, {300, 3}, 1, 256);
  w.add(2, {20, 3});
  w.step();
  EXPECT_THAT(admitted(w.step()), ElementsAre(1, 2));
  SchedulerWorld other(l);
  other.add(0, {600, 3}, 1, 512);
  other.add(1, {600, 3}, 1, 512);
  other.step();
  other.add(2, {20, 3});
  other.add(3, {20, 3});
  EXPECT_THAT(admitted(other.step()), IsEmpty());  // no rows are left
  EXPECT_THAT(admitted(other.step()), ElementsAre(1, 2, 3));
}

TEST(ShareWaitTest, TheWaitEndsWithTheOneThatItWasFor) {
  SchedulerWorld w(limits(40, 100));
  w.add(0, {900, 3}, 1, 896);
  w.step();
  w.add(1, {900, 3}, 1, 896);
  EXPECT_THAT(admitted(w.step()), IsEmpty());
  w.end(0);
  EXPECT_THAT(admitted(w.step()), ElementsAre(1));
}

// All places are held by worse ones: its wait begins in the plan whose facts say so, and ends with a preemption.
TEST(ShareWaitTest, ABetterOneWithoutAPlaceWaitsNoLonger) {
  SchedulerLimits l = limits(100);
  l.policy = SchedulingPolicy::kPriority;
  l.max_seqs = 1;
  ToldMemory memory;
  memory.wait = true;
  Scheduler scheduler(l);
  scheduler.add(id(0), {5, 1000, 1});
  memory.plan(&scheduler);
  scheduler.completed();
  scheduler.add(id(1), {5, 1000, 0});
  int plans = 1;
  for (; plans < 2 * Scheduler::kMaxShareWaits; ++plans) {
    const bool preempts = !memory.plan(&scheduler).preemptions.empty();
    scheduler.completed();
    if (preempts) break;
  }
  EXPECT_EQ(plans, Scheduler::kMaxShareWaits + 2);  // it is woken in one plan, and preempts in the next
}

class EndlessWaitTest : public testing::Test {
 protected:
  // One sequence runs, and the facts let the others wait for it.
  explicit EndlessWaitTest() : scheduler_(limits(100)) {
    scheduler_.add(id(0), {5, 1000});
    memory_.wait = true;
    EXPECT_EQ(step(), 1);  // nothing runs that it could wait for
  }
  // Returns how many were admitted.
  int step() {
    const int n = static_cast<int>(memory_.plan(&scheduler_).admissions.size());
    scheduler_.completed();
    return n;
  }
  int steps_to_admission() {
    for (int waited = 0; waited < 100; ++waited) {
      if (step() > 0) return waited;
    }
    return 100;
  }

  ToldMemory memory_;
  Scheduler scheduler_;
};

TEST_F(EndlessWaitTest, NobodyWaitsForEver) {
  scheduler_.add(id(1), {5, 1000});
  EXPECT_EQ(steps_to_admission(), Scheduler::kMaxShareWaits);
}

TEST_F(EndlessWaitTest, WaitsAreCountedTogether) {
  scheduler_.add(id(1), {5, 1000});
  for (int i = 0; i < 40; ++i) EXPECT_EQ(step(), 0);
  memory_.wait = false;
  memory_.free = 0;  // it need not wait now, and finds no room
  EXPECT_EQ(step(), 0);
  memory_.wait = true;
  memory_.free = 100;
  EXPECT_EQ(steps_to_admission(), Scheduler::kMaxShareWaits - 41);
}

TEST_F(EndlessWaitTest, AFewAreAskedInEachPlanByTurns) {
  for (int i = 1; i < 39; ++i) scheduler_.add(id(i), {5, 1000});
  std::set<int> asked;
  const auto ask = [&](int plans, std::size_t most) {
    asked.clear();
    for (int i = 0; i < plans; ++i) {
      EXPECT_EQ(step(), 0);
      EXPECT_LE(memory_.asked.size(), most);
      asked.insert(memory_.asked.begin(), memory_.asked.end());
    }
    return asked.size();
  };
  EXPECT_EQ(ask(2, 48), 38U);
  EXPECT_EQ(ask(3, 16), 38U);  // again, when all wait
  EXPECT_EQ(scheduler_.waiting(), 38);
}

TEST_F(EndlessWaitTest, OneThatWaitsMayEnd) {
  scheduler_.add(id(1), {5, 1000});
  scheduler_.add(id(2), {5, 1000});
  step();
  scheduler_.end(id(1));
  EXPECT_EQ(scheduler_.waiting(), 1);
  EXPECT_EQ(steps_to_admission(), Scheduler::kMaxShareWaits - 1);
}

TEST_F(EndlessWaitTest, NobodyWaitsForNobody) {
  for (int i = 1; i < 39; ++i) scheduler_.add(id(i), {5, 1000});
  step();
  step();
  scheduler_.end(id(0));
  EXPECT_EQ(step(), 1);  // and the others wait for this one
}

}  // namespace
}  // namespace sluice::admission_test
