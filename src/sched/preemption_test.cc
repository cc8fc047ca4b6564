// Who leaves the memory before its end, and how it comes back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "sched/scheduler_world_testing.h"
#include "sched/told_memory_testing.h"

namespace sluice::preemption_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

SchedulerLimits limits(int pages) {
  return scarce_limits(pages);
}

SequenceId id(int i) {
  return SequenceId(i);
}

// --- For memory ---

TEST(PreemptionTest, ADecodeThatNeedsAPagePreemptsTheLatest) {
  SchedulerWorld w(limits(2));
  w.add(0, {127, 10});
  w.add(1, {126, 10});
  w.step();
  EXPECT_THAT(w.step().preemptions, IsEmpty());
  const StepPlan plan = w.step();  // both pools are full, and row 128 of the first begins a page
  EXPECT_THAT(plan.preemptions, ElementsAre(Preemption{id(1), false}));
  EXPECT_THAT(plan.spans, ElementsAre(Span{id(0), 128, 1, true}));
  EXPECT_EQ(w.scheduler.waiting(), 1);
}

TEST(PreemptionTest, NoTokenIsLost) {
  SchedulerWorld w(limits(2));
  w.add(0, {127, 10});
  w.add(1, {126, 10});
  w.steps(3);
  while (w.alive(0)) EXPECT_THAT(w.step().admissions, IsEmpty());  // no room before the first has ended
  // Its prompt and the two tokens that it had: computed again in one piece, and the third one is sampled.
  EXPECT_THAT(w.spans(), ElementsAre(Span{id(1), 0, 128, true}));
  EXPECT_THAT(w.spans(), ElementsAre(Span{id(1), 128, 1, true}));
  int more = 0;
  for (; w.alive(1); ++more) w.step();
  EXPECT_EQ(more, 10 - 2 - 2);
}

TEST(PreemptionTest, TheBestOneEndsInAPoolOfItsOwnSize) {
  SchedulerLimits l = limits(4);
  l.watermark_pages = 3;
  SchedulerWorld w(l);
  w.add(0, {10, 503});  // 512 rows: all pages
  w.add(1, {10, 503});
  for (int i = 0; i < 503; ++i) {
    for (const Preemption& p : w.step().preemptions) EXPECT_EQ(p.sequence, id(1));
  }
  EXPECT_FALSE(w.alive(0));
  w.steps(520);
  EXPECT_FALSE(w.alive(1));
}

TEST(PreemptionTest, ThoseOfLowerRankGoOneByOne) {
  SchedulerWorld w(limits(4));
  for (int i = 0; i < 4; ++i) w.add(i, {125 - i, 100});
  std::vector<int> preempted;
  for (int step = 0; step < 300 && w.alive(0); ++step) {
    for (const Preemption& p : w.step().preemptions) preempted.push_back(p.sequence.value);
  }
  EXPECT_THAT(preempted, ElementsAre(3, 2));
}

TEST(PreemptionTest, HalfOfThemLeaveWhenAllNeedAPageAtOnce) {
  SchedulerLimits l = limits(6);
  l.max_batched_tokens = 1000;
  SchedulerWorld w(l);
  for (int i = 0; i < 6; ++i) w.add(i, {127, 100});
  w.steps(2);
  const StepPlan plan = w.step();
  EXPECT_THAT(plan.preemptions,
              ElementsAre(Preemption{id(5), false}, Preemption{id(4), false}, Preemption{id(3), false}));
  EXPECT_EQ(plan.spans.size(), 3U);
}

TEST(PreemptionTest, ADecodeOfTheLowestRankLeavesItself) {
  SchedulerWorld w(limits(3));
  w.add(0, {200, 20});
  w.add(1, {126, 20});
  w.steps(3);
  const StepPlan plan = w.step();
  EXPECT_THAT(plan.preemptions, ElementsAre(Preemption{id(1), false}));
  EXPECT_THAT(plan.spans, ElementsAre(Span{id(0), 202, 1, true}));
}

TEST(PreemptionTest, PagesSharedByAllThatLeaveAreFreeAtLast) {
  SchedulerWorld w(limits(3));
  w.add(0, {128, 20});
  w.add(1, {256, 20});
  w.step();
  ASSERT_TRUE(w.fork(1, 2));  // neither of the two holds a page alone
  const StepPlan plan = w.step();
  EXPECT_THAT(plan.preemptions, ElementsAre(Preemption{id(2), false}, Preemption{id(1), false}));
  EXPECT_THAT(plan.spans, ElementsAre(Span{id(0), 128, 1, true}));
}

TEST(PreemptionTest, AfterAPreemptionForMemoryNobodyIsAdmitted) {
  SchedulerWorld w(limits(3));
  w.add(0, {127, 10});
  w.add(1, {254, 10});
  w.steps(2);
  w.add(2, {5, 10});
  const StepPlan plan = w.step();  // one leaves two pages, and one is used
  EXPECT_THAT(plan.preemptions, ElementsAre(Preemption{id(1), false}));
  EXPECT_THAT(plan.admissions, IsEmpty());
}

// Three decodes and two rows a step: the best one's turn comes when the second has the only page, that of the third.
TEST(PreemptionTest, TheBestOneStaysWhenItsTurnFindsNoPage) {
  SchedulerLimits l = limits(100);
  l.max_batched_tokens = 2;
  l.mixed = false;
  l.policy = SchedulingPolicy::kFcfs;
  ToldMemory memory;
  Scheduler s(l);
  const auto step = [&] {
    const StepPlan plan = memory.plan(&s);
    s.completed();
    return plan;
  };
  s.add(id(0), {49, 200});
  s.add(id(1), {100, 200});
  const Span last{id(1), 126, 1, true};
  bool seen = false;
  for (int i = 0; i < 1000 && !seen; ++i) {
    const std::vector<Span> spans = step().spans;
    seen = !spans.empty() && spans.back() == last;
  }
  ASSERT_TRUE(seen);
  ASSERT_TRUE(s.fork(id(1), id(2), memory.free));
  EXPECT_THAT(step().spans, ElementsAre(Span{id(0), 126, 1, true}, Span{id(1), 127, 1, true}));
  EXPECT_THAT(step().spans, ElementsAre(Span{id(2), 127, 1, true}, Span{id(0), 127, 1, true}));
  memory.free = 0;
  memory.exclusive = 1;
  const StepPlan plan = step();
  EXPECT_THAT(plan.preemptions, ElementsAre(Preemption{id(2), false}));
  EXPECT_THAT(plan.spans, ElementsAre(Span{id(1), 128, 1, true}));
  const StepPlan next = step();
  EXPECT_THAT(next.preemptions, ElementsAre(Preemption{id(1), false}));
  EXPECT_THAT(next.spans, ElementsAre(Span{id(0), 128, 1, true}));
}

// An admission may claim a victim's pages, so the memory's answers no longer hold for a preemption.
TEST(PreemptionTest, NobodyLeavesAfterAnAdmission) {
  SchedulerLimits l = limits(100);
  l.max_batched_tokens = 4;
  ToldMemory memory;
  Scheduler s(l);
  s.add(id(0), {127, 200});
  for (int i = 0; i < 32; ++i) {
    memory.plan(&s);
    s.completed();
  }
  for (int child = 1; child < 6; ++child) ASSERT_TRUE(s.fork(id(0), id(child), memory.free));
  EXPECT_EQ(memory.plan(&s).rows, 4);  // six in two steps of four rows: two are not due in the next one
  s.completed();
  memory.free = 3;  // two for the copies that are due
  s.add(id(6), {1, 5});
  const StepPlan plan = memory.plan(&s);
  EXPECT_THAT(plan.preemptions, IsEmpty());
  EXPECT_THAT(plan.spans, ElementsAre(Span{id(4), 127, 1, true}, Span{id(5), 127, 1, true}, Span{id(6), 0, 1, true}));
}

TEST(PreemptionTest, APartialPromptMayBePreemptedAndKeepsAllItsTokens) {
  SchedulerLimits l = limits(5);
  l.max_batched_tokens = 64;
  SchedulerWorld w(l);
  w.add(0, {125, 300});
  w.steps(2);
  w.add(1, {500, 2});  // four pages, promised
  w.steps(2);
  StepPlan plan = w.step();
  while (plan.preemptions.empty()) plan = w.step();
  EXPECT_THAT(plan.preemptions, ElementsAre(Preemption{id(1), false}));
  for (const Span& span : plan.spans) EXPECT_EQ(span.sequence, id(0)) << "no rows for what was preempted";
  w.end(0);
  int rows = 0;
  for (bool sampled = false; !sampled;) {
    const StepPlan again = w.step();
    EXPECT_EQ(again.spans.size(), 1U);
    if (rows == 0) rows = again.spans[0].first_position;
    rows += again.rows;
    sampled = again.spans[0].samples;
  }
  EXPECT_EQ(rows, 500);
}

TEST(PreemptionTest, WhatWasPreemptedComesBackBeforeTheYounger) {
  SchedulerLimits l = limits(2);
  l.policy = SchedulingPolicy::kFcfs;
  SchedulerWorld w(l);
  w.add(0, {127, 5});
  w.add(1, {126, 5});
  w.steps(2);
  w.add(2, {5, 5});
  EXPECT_EQ(w.step().preemptions.size(), 1U);
  while (w.alive(0)) EXPECT_THAT(w.step().admissions, IsEmpty());
  EXPECT_THAT(w.step().admissions, ElementsAre(Admission{id(1), false, 0}, Admission{id(2), false, 0}));
}

TEST(PreemptionTest, PromptsAreNotPreemptedForDecodesThatFit) {
  SchedulerLimits l = limits(8);
  l.max_batched_tokens = 20;
  SchedulerWorld w(l);
  w.add(0, {10, 300});
  w.add(1, {500, 30});
  for (int i = 0; i < 200 && w.alive(1); ++i) EXPECT_THAT(w.step().preemptions, IsEmpty());
}

TEST(PreemptionTest, MixedStepsPreemptNobodyWhoHasASpan) {
  SchedulerLimits l = limits(6);
  l.max_batched_tokens = 40;
  SchedulerWorld w(l);
  for (int i = 0; i < 4; ++i) w.add(i, {100 + 10 * i, 60});
  int preemptions = 0;
  for (int step = 0; step < 600; ++step) {
    const StepPlan plan = w.step();
    for (const Preemption& p : plan.preemptions) {
      ++preemptions;
      EXPECT_FALSE(plan.spans.empty());
      for (const Span& span : plan.spans) EXPECT_NE(span.sequence, p.sequence);
      for (const Admission& a : plan.admissions) EXPECT_NE(a.sequence, p.sequence);
    }
  }
  EXPECT_GT(preemptions, 0) << "nobody was preempted";
  EXPECT_EQ(w.scheduler.running() + w.scheduler.waiting(), 0);
}

// --- By priority ---

SchedulerLimits priorities(int pages) {
  SchedulerLimits l = limits(pages);
  l.policy = SchedulingPolicy::kPriority;
  return l;
}

TEST(PriorityPreemptionTest, ABetterOneTakesTheMemoryOfTheWorst) {
  SchedulerWorld w(priorities(4));
  w.add(0, {200, 50, 1});
  w.add(1, {200, 50, 2});
  w.steps(2);
  w.add(2, {200, 50, 0});
  const StepPlan plan = w.step();
  EXPECT_THAT(plan.preemptions, ElementsAre(Preemption{id(1), false}));
  EXPECT_THAT(plan.admissions, ElementsAre(Admission{id(2), false, 0}));
  EXPECT_THAT(plan.spans, ElementsAre(Span{id(0), 201, 1, true}, Span{id(2), 0, 200, true}));
}

TEST(PriorityPreemptionTest, ABetterOneTakesThePlaceOfTheLatest) {
  SchedulerLimits l = priorities(40);
  l.max_seqs = 2;
  SchedulerWorld w(l);
  w.add(0, {20, 50, 1});
  w.add(1, {20, 50, 1});
  w.steps(2);
  w.add(2, {20, 50, 0});
  const StepPlan plan = w.step();
  EXPECT_THAT(plan.preemptions, ElementsAre(Preemption{id(1), false}));
  EXPECT_THAT(plan.admissions, ElementsAre(Admission{id(2), false, 0}));
}

TEST(PriorityPreemptionTest, EqualsAreNotPreempted) {
  SchedulerWorld w(priorities(4));
  w.add(0, {200, 20, 1});
  w.add(1, {200, 20, 1});
  w.steps(2);
  w.add(2, {200, 20, 1});
  while (w.alive(0)) EXPECT_THAT(w.step().preemptions, IsEmpty());
}

TEST(PriorityPreemptionTest, NobodyIsPreemptedInVain) {
  SchedulerWorld w(priorities(8));
  w.add(0, {500, 10, 0});
  w.add(1, {200, 10, 5});
  w.steps(2);
  w.add(2, {700, 10, 1});  // six pages: the worse one has two, and two are free
  EXPECT_THAT(w.step().preemptions, IsEmpty());
  while (w.alive(0)) EXPECT_THAT(w.step().preemptions, IsEmpty());
}

TEST(PriorityPreemptionTest, TheFewestArePreempted) {
  SchedulerWorld w(priorities(6));
  for (int i = 0; i < 6; ++i) w.add(i, {100, 20, i});
  w.steps(2);
  w.add(6, {200, 20, 0});
  EXPECT_THAT(w.step().preemptions, ElementsAre(Preemption{id(5), false}, Preemption{id(4), false}));
}

TEST(PriorityPreemptionTest, WhatTheyShareCounts) {
  SchedulerWorld w(priorities(4));
  w.add(0, {256, 20, 5});
  w.step();
  ASSERT_TRUE(w.fork(0, 1));
  w.add(2, {512, 1, 0});  // all pages
  const StepPlan plan = w.step();
  EXPECT_THAT(plan.preemptions, ElementsAre(Preemption{id(1), false}, Preemption{id(0), false}));
  EXPECT_THAT(plan.admissions, ElementsAre(Admission{id(2), false, 0}));
}

TEST(PriorityPreemptionTest, AHitIsNotPaidForTwice) {
  SchedulerWorld w(priorities(8));
  w.add(0, {600, 40, 0}, 1, 512);  // five pages
  w.step();
  w.add(1, {200, 40, 6});  // two
  w.add(2, {100, 40, 6});  // the last
  w.step();
  w.add(3, {600, 40, 1}, 1, 512);  // one, besides those it shares with the first
  EXPECT_THAT(w.step().preemptions, ElementsAre(Preemption{id(2), false}));
  EXPECT_THAT(w.step().admissions, ElementsAre(Admission{id(3), false, 512}));
}

TEST(PriorityPreemptionTest, OneThatWouldGetNoRowsPreemptsNobody) {
  SchedulerLimits l = priorities(9);
  l.max_batched_tokens = 100;
  SchedulerWorld w(l);
  w.add(0, {50, 100, 5});
  w.step();
  w.add(1, {1000, 2, 0});  // eight pages, and all rows
  w.step();
  w.add(2, {50, 2, 1});
  while (w.computed(1) < 900) EXPECT_THAT(w.step().preemptions, IsEmpty());
  w.steps(2);
  EXPECT_FALSE(w.runs(0));
}

TEST(PriorityPreemptionTest, AnUrgentOneAlsoGetsThePlaceOfAPrompt) {
  SchedulerLimits l = priorities(40);
  l.max_seqs = 1;
  l.max_batched_tokens = 50;
  SchedulerWorld w(l);
  w.add(0, {1000, 2, 3});
  w.steps(3);
  w.add(1, {60, 2, -3});
  EXPECT_THAT(w.step().admissions, ElementsAre(Admission{id(1), false, 0}));
  int steps = 0;
  for (; w.alive(1); ++steps) w.step();
  EXPECT_EQ(steps, 2);
  while (w.alive(0)) ASSERT_LE(w.step().rows, 50);
}

// --- Swapping ---

TEST(SwapTest, IsChosenByCost) {
  const auto swaps = [](double row, double page, int swap_pages) {
    SchedulerLimits l = limits(2);
    l.recompute_cost_per_row = row;
    l.swap_cost_per_page = page;
    SchedulerWorld w(l, swap_pages);
    w.add(0, {127, 10});
    w.add(1, {126, 10});
    w.steps(2);
    const StepPlan plan = w.step();
    EXPECT_EQ(plan.preemptions.size(), 1U);
    return plan.preemptions[0].swap;
  };
  EXPECT_FALSE(swaps(0, 0, 10));
  EXPECT_FALSE(swaps(1, 0, 10));
  EXPECT_FALSE(swaps(0, 1, 10));
  EXPECT_TRUE(swaps(1, 21, 10));  // 127 rows against 2 * (1 + 2) pages
  EXPECT_FALSE(swaps(1, 22, 10));
  EXPECT_FALSE(swaps(1, 1, 1));  // the state does not fit
}

TEST(SwapTest, ASwappedSequenceIsRestoredWhereItWas) {
  SchedulerLimits l = limits(2);
  l.recompute_cost_per_row = 1000;
  l.swap_cost_per_page = 1;
  SchedulerWorld w(l, 10);
  w.add(0, {127, 6});
  w.add(1, {126, 6});
  w.steps(2);
  EXPECT_THAT(w.step().preemptions, ElementsAre(Preemption{id(1), true}));
  while (w.alive(0)) w.step();
  const StepPlan plan = w.step();
  EXPECT_THAT(plan.admissions, ElementsAre(Admission{id(1), true, 127}));
  EXPECT_THAT(plan.spans, ElementsAre(Span{id(1), 127, 1, true}));
  EXPECT_THAT(w.spans(), ElementsAre(Span{id(1), 128, 1, true}));
}

TEST(SwapTest, APromptGoesOnWhereItWas) {
  SchedulerLimits l = limits(20);
  l.max_batched_tokens = 100;
  SchedulerWorld w(l, 10);
  w.add(0, {10, 100});
  w.step();
  w.scheduler.force_preemption();  // the first one drops
  w.step();
  w.step();
  w.add(1, {500, 5});
  w.steps(2);
  w.scheduler.force_preemption();
  const Position before = w.computed(1);
  EXPECT_THAT(w.step().preemptions, ElementsAre(Preemption{id(1), true}));
  EXPECT_THAT(w.step().admissions, ElementsAre(Admission{id(1), true, before}));
}

TEST(SwapTest, ALostStateIsComputedAnew) {
  for (const bool on_the_way_out : {true, false}) {
    SchedulerLimits l = limits(20);
    SchedulerWorld w(l, 10, false);
    w.add(0, {10, 100});
    w.step();
    w.scheduler.force_preemption();
    w.steps(3);
    w.scheduler.force_preemption();
    const StepPlan out = w.plan();
    ASSERT_THAT(out.preemptions, ElementsAre(Preemption{id(0), true}));
    w.memory.carry_out(out);
    if (on_the_way_out) {
      w.scheduler.lost(id(0));
      w.memory.lose(id(0));
    }
    w.scheduler.completed();
    if (!on_the_way_out) {
      const StepPlan back = w.plan();
      ASSERT_THAT(back.admissions, ElementsAre(Admission{id(0), true, 12}));
      w.memory.carry_out(back);
      w.scheduler.lost(id(0));
      w.memory.lose(id(0));
      w.scheduler.completed();
    }
    EXPECT_EQ(w.scheduler.running(), 0);
    EXPECT_THAT(w.spans(), ElementsAre(Span{id(0), 0, 13, true}));
  }
}

// --- Forced ---

TEST(ForcedPreemptionTest, GoesRoundAndSwapsEverySecondTime) {
  SchedulerWorld w(limits(50), 40);
  for (int i = 0; i < 3; ++i) w.add(i, {20, 500});
  w.steps(2);
  std::vector<std::pair<int, bool>> preempted;
  for (int i = 0; i < 5; ++i) {
    w.scheduler.force_preemption();
    const StepPlan plan = w.step();
    ASSERT_EQ(plan.preemptions.size(), 1U);
    preempted.emplace_back(plan.preemptions[0].sequence.value, plan.preemptions[0].swap);
    EXPECT_EQ(plan.spans.size(), 2U);
    w.steps(2);
  }
  using P = std::pair<int, bool>;
  EXPECT_THAT(preempted, ElementsAre(P{0, false}, P{1, true}, P{2, false}, P{0, true}, P{1, false}));
}

TEST(ForcedPreemptionTest, TheLastOneRunningLeavesAnEmptyPlan) {
  SchedulerWorld w(limits(50));
  w.add(0, {20, 5});
  w.step();
  w.scheduler.force_preemption();
  const StepPlan plan = w.step();
  EXPECT_EQ(plan.preemptions.size(), 1U);
  EXPECT_TRUE(plan.empty());
  EXPECT_THAT(w.spans(), ElementsAre(Span{id(0), 0, 21, true}));
}

TEST(ForcedPreemptionTest, AllEndHoweverOftenItIsAsked) {
  SchedulerLimits l = limits(50);
  l.max_batched_tokens = 30;
  SchedulerWorld w(l, 0, false);
  w.add(0, {200, 10});  // takes seven steps to compute again
  w.add(1, {50, 10});
  for (int step = 0; w.scheduler.running() + w.scheduler.waiting() > 0; ++step) {
    ASSERT_LT(step, 1000);
    w.scheduler.force_preemption();
    w.step();
  }
}

}  // namespace
}  // namespace sluice::preemption_test
