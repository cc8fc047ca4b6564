#include "sched/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sched/scheduler_world_testing.h"

namespace sluice::scheduler_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

SchedulerLimits limits(int budget) {
  return {.max_batched_tokens = budget,
          .max_seqs = 4,
          .max_model_len = 10000,
          .latent_pages = 100,
          .window_pages = 100,
          .geometry = {.resume_pages = 1, .has_latents = true, .has_windows = true}};
}

SequenceId id(int i) {
  return SequenceId(i);
}

TEST(SchedulerTest, NothingToDoIsAnEmptyPlan) {
  SchedulerWorld w(limits(16));
  EXPECT_TRUE(w.step().empty());
  EXPECT_EQ(w.scheduler.running() + w.scheduler.waiting(), 0);
  w.add(0, {3, 1});
  EXPECT_EQ(w.scheduler.waiting(), 1);
  w.step();
  EXPECT_EQ(w.scheduler.running() + w.scheduler.waiting(), 0);
  EXPECT_TRUE(w.step().empty());
}

TEST(SchedulerTest, AChunkedPromptSamplesWithItsLastRowOnly) {
  SchedulerWorld w(limits(6));
  w.add(0, {10, 3});
  const StepPlan first = w.step();
  EXPECT_THAT(first.admissions, ElementsAre(Admission{id(0), false, 0}));
  EXPECT_THAT(first.spans, ElementsAre(Span{id(0), 0, 6, false}));
  EXPECT_THAT(w.spans(), ElementsAre(Span{id(0), 6, 4, true}));
  EXPECT_THAT(w.spans(), ElementsAre(Span{id(0), 10, 1, true}));
  EXPECT_THAT(w.spans(), ElementsAre(Span{id(0), 11, 1, true}));
  EXPECT_THAT(w.spans(), IsEmpty());
}

TEST(SchedulerTest, APromptOfOneTokenSamplesAtOnce) {
  SchedulerWorld w(limits(6));
  w.add(0, {1, 2});
  EXPECT_THAT(w.spans(), ElementsAre(Span{id(0), 0, 1, true}));
  EXPECT_THAT(w.spans(), ElementsAre(Span{id(0), 1, 1, true}));
  EXPECT_FALSE(w.alive(0));
}

TEST(SchedulerTest, PlacesLimitWhoRuns) {
  SchedulerWorld w(limits(600));
  for (int i = 0; i < 6; ++i) w.add(i, {5, 3});
  EXPECT_EQ(w.step().admissions.size(), 4U);
  EXPECT_EQ(w.scheduler.running(), 4);
  EXPECT_EQ(w.scheduler.waiting(), 2);
  w.steps(2);  // the four end
  EXPECT_THAT(w.spans(), ElementsAre(Span{id(4), 0, 5, true}, Span{id(5), 0, 5, true}));
}

TEST(SchedulerTest, TheBudgetLimitsTheRowsOfAStep) {
  SchedulerWorld w(limits(10));
  for (int i = 0; i < 3; ++i) w.add(i, {8, 2});
  for (int i = 0; i < 10; ++i) EXPECT_LE(w.step().rows, 10);
  EXPECT_EQ(w.scheduler.running() + w.scheduler.waiting(), 0);
}

TEST(SchedulerTest, APlanWithoutPromptsIsDecodesOnly) {
  SchedulerWorld w(limits(16));
  w.add(0, {4, 5});
  w.add(1, {4, 5});
  EXPECT_THAT(w.spans(), ElementsAre(Span{id(0), 0, 4, true}, Span{id(1), 0, 4, true}));
  EXPECT_THAT(w.spans(), ElementsAre(Span{id(0), 4, 1, true}, Span{id(1), 4, 1, true}));
}

TEST(SchedulerTest, PromptsAndDecodesShareAStep) {
  SchedulerWorld w(limits(16));
  w.add(0, {1, 5});
  w.step();
  w.add(1, {4, 5});
  EXPECT_THAT(w.spans(), ElementsAre(Span{id(0), 1, 1, true}, Span{id(1), 0, 4, true}));
}

TEST(SchedulerTest, ADecodeIsReservedBeforeAPromptThatWouldFillTheBudget) {
  SchedulerWorld w(limits(8));
  w.add(0, {1, 9});
  w.step();
  w.add(1, {8, 5});
  EXPECT_THAT(w.spans(), ElementsAre(Span{id(0), 1, 1, true}, Span{id(1), 0, 7, false}));
  EXPECT_THAT(w.spans(), ElementsAre(Span{id(0), 2, 1, true}, Span{id(1), 7, 1, true}));
  EXPECT_THAT(w.spans(), ElementsAre(Span{id(0), 3, 1, true}, Span{id(1), 8, 1, true}));
}

TEST(SchedulerTest, ALongPromptDoesNotStallDecodes) {
  SchedulerWorld w(limits(64));
  w.add(0, {1, 100});
  w.step();
  w.add(1, {5000, 2});
  for (int i = 0; i < 79; ++i) {
    const auto spans = w.spans();
    ASSERT_EQ(spans.size(), 2U);
    EXPECT_EQ(spans[0], (Span{id(0), 1 + i, 1, true}));
  }
}

TEST(SchedulerTest, EverySequenceHasOneSpanAtMost) {
  SchedulerWorld w(limits(9));
  for (int i = 0; i < 4; ++i) w.add(i, {1 + 7 * i, 6});
  for (int step = 0; step < 20; ++step) {
    std::map<int, int> seen;
    for (const Span& span : w.spans()) EXPECT_EQ(++seen[span.sequence.value], 1);
  }
}

TEST(SchedulerTest, AFullBudgetOfDecodesIsServedWhole) {
  SchedulerLimits l = limits(2);
  SchedulerWorld w(l);
  for (int i = 0; i < 3; ++i) w.add(i, {1, 4});
  w.step();
  // ceil(2 / 2) = 1: no row is left until one ends.
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(w.spans(), ElementsAre(Span{id(0), 1 + i, 1, true}, Span{id(1), 1 + i, 1, true}));
  }
  EXPECT_THAT(w.spans(), ElementsAre(Span{id(2), 0, 1, true}));
}

TEST(SchedulerTest, DecodesBeyondTheBudgetTakeTurnsWithinTheBound) {
  SchedulerLimits l = limits(2);
  l.max_seqs = 5;
  SchedulerWorld w(l);
  w.add(0, {1, 200});
  w.step();
  for (int i = 1; i < 5; ++i) ASSERT_TRUE(w.fork(0, i));
  std::map<int, int> last;
  for (int now = 1; now <= 60; ++now) {
    const auto spans = w.spans();
    EXPECT_EQ(spans.size(), 2U);
    for (const Span& span : spans) last[span.sequence.value] = now;
    for (int i = 0; i < 5; ++i) EXPECT_LE(now - last[i], 3) << i;
  }
}

TEST(SchedulerTest, APromptGetsTheTurnsThatAreNotDue) {
  SchedulerLimits l = limits(2);
  l.max_seqs = 6;
  SchedulerWorld w(l);
  w.add(0, {1, 1000});
  w.step();
  for (int i = 1; i < 5; ++i) ASSERT_TRUE(w.fork(0, i));  // 5 decodes in 3 steps of 2 rows: one to spare
  w.add(5, {10, 1});
  int steps = 0;
  while (w.alive(5) && steps < 100) w.step(), ++steps;
  EXPECT_LE(steps, 32);
}

TEST(SchedulerTest, RowsThatAPromptLeavesGoToTurnsThatAreNotDue) {
  SchedulerLimits l = limits(8);
  l.max_seqs = 12;
  SchedulerWorld w(l);
  w.add(0, {1, 1000});
  w.step();
  for (int i = 1; i < 10; ++i) ASSERT_TRUE(w.fork(0, i));  // 10 decodes in 2 steps of 8 rows: some are not due
  w.add(10, {5, 1});
  while (w.alive(10)) EXPECT_EQ(w.step().rows, 8);
}

TEST(SchedulerTest, ADecodeGoesOnBehindTheTokensThatItGot) {
  SchedulerLimits l = limits(200);
  l.drafts = {.most = 3, .adaptive = false, .step_seconds = {}};
  SchedulerWorld w(l);
  w.add(0, {126, 9});
  w.add(1, {3, 9});
  const auto plan_with_offers = [&] {
    PlanFacts facts = w.memory.answers(&w.scheduler);
    for (const int i : {0, 1}) facts.offers.push_back({id(i), DraftSource::kMtp, 8});
    return w.scheduler.plan(facts);
  };
  const auto step = [&](std::vector<int> tokens) {
    const StepPlan plan = plan_with_offers();
    w.memory.carry_out(plan);
    w.memory.finish(plan, tokens);
    w.scheduler.completed();
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      w.scheduler.judged(plan.spans[i].sequence, DraftSource::kMtp, plan.spans[i].drafts, tokens[i] - 1);
    }
    for (std::size_t i = 0; i < tokens.size(); ++i) w.memory.append(plan.spans[i].sequence, tokens[i]);
    w.memory.audit();
    EXPECT_EQ(w.memory.problem(), "");
    return plan.spans;
  };
  EXPECT_THAT(w.spans(), ElementsAre(Span{id(0), 0, 126, true}, Span{id(1), 0, 3, true}));
  EXPECT_EQ(w.memory.free_latent_pages(), 98);
  // Four rows each: the first one's reach into a block, whose page it gives back with the rows.
  EXPECT_THAT(step({1, 3}), ElementsAre(Span{id(0), 126, 4, true, 3}, Span{id(1), 3, 4, true, 3}));
  EXPECT_EQ(w.memory.free_latent_pages(), 98);
  EXPECT_THAT(step({4, 1}), ElementsAre(Span{id(0), 127, 4, true, 3}, Span{id(1), 6, 4, true, 3}));
  EXPECT_EQ(w.memory.free_latent_pages(), 97);
  // 126 + 9 tokens are 134 rows, of which 131 are computed: no guess goes beyond them.
  EXPECT_THAT(plan_with_offers().spans, ElementsAre(Span{id(0), 131, 3, true, 2}, Span{id(1), 7, 4, true, 3}));
}

TEST(SchedulerTest, WhatNeverFitsIsRefusedWithNumbers) {
  SchedulerWorld w(limits(16));
  EXPECT_TRUE(w.scheduler.check({1, 1}).ok());
  EXPECT_TRUE(w.scheduler.check({9000, 1000}).ok());
  EXPECT_THAT(w.scheduler.check({9000, 1001}).message(), HasSubstr("prompt (9000 tokens) + max_tokens (1001) = 10001"));
  EXPECT_TRUE(w.scheduler.check({10000, 0}).ok());  // only scored
  EXPECT_FALSE(w.scheduler.check({10001, 0}).ok());
  SchedulerLimits l = limits(16);
  l.latent_pages = 2;
  SchedulerWorld small(l);
  EXPECT_TRUE(small.scheduler.check({200, 57}).ok());
  EXPECT_THAT(small.scheduler.check({200, 58}).message(),
              HasSubstr("need 3 cache pages of 128 tokens, but there are 2"));
  l = limits(10000);
  l.chunked_prefill = false;
  l.window_pages = 3;
  SchedulerWorld whole(l);
  EXPECT_TRUE(whole.scheduler.check({384, 1}).ok());
  EXPECT_THAT(whole.scheduler.check({384, 2}).message(),
              HasSubstr("need 4 window pages of 128 tokens, but there are 3"));
}

TEST(SchedulerTest, MostTokensIsTheLargestNumberThatPassesTheCheck) {
  SchedulerLimits longest = limits(16), pages = limits(16), uncut = limits(10000);
  pages.latent_pages = 5;
  uncut.chunked_prefill = false;
  uncut.window_pages = 3;
  for (const SchedulerLimits& l : {longest, pages, uncut}) {
    const Scheduler scheduler(l);
    for (const int prompt : {1, 100, 128, 384, 385, 640, 641, 9999, 10000, 20000}) {
      const int most = scheduler.most_tokens(prompt);
      ASSERT_GE(most, 0);
      EXPECT_TRUE(most == 0 || scheduler.check({prompt, most}).ok()) << prompt;
      EXPECT_FALSE(scheduler.check({prompt, most + 1}).ok()) << prompt;
    }
  }
}

TEST(SchedulerTest, SequencesEndInEveryState) {
  SchedulerLimits l = limits(200);
  l.max_seqs = 2;
  SchedulerWorld w(l, 10);
  w.add(0, {10, 50});
  w.add(1, {500, 50});
  w.add(2, {10, 50});
  w.step();
  EXPECT_EQ(w.scheduler.waiting(), 1);
  w.end(2);  // waiting
  w.step();
  w.end(1);  // in its prompt
  w.step();
  w.end(0);  // decoding
  EXPECT_EQ(w.scheduler.running() + w.scheduler.waiting(), 0);
  EXPECT_EQ(w.memory.free_latent_pages(), 100);
  w.add(0, {10, 50});
  w.step();
  w.scheduler.force_preemption();
  w.step();
  w.end(0);  // preempted
  w.add(0, {10, 50});
  w.step();
  w.scheduler.force_preemption();
  EXPECT_THAT(w.step().preemptions, ElementsAre(Preemption{id(0), true}));
  w.end(0);  // swapped
  EXPECT_EQ(w.memory.swap_used(), 0);
  EXPECT_TRUE(w.step().empty());
}

TEST(SchedulerTest, ASequenceMayEndBetweenPlanAndCompletion) {
  SchedulerWorld w(limits(16));
  w.add(0, {4, 5});
  w.add(1, {4, 5});
  EXPECT_EQ(w.plan().spans.size(), 2U);
  w.scheduler.end(id(0));
  w.scheduler.completed();
  EXPECT_THAT(w.plan().spans, ElementsAre(Span{id(1), 4, 1, true}));
  w.scheduler.completed();
}

}  // namespace
}  // namespace sluice::scheduler_test
