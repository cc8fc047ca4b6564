// Paused sequences: who gives memory to whom while their clients do not read.
#include <gtest/gtest.h>

#include "sched/scheduler_world_testing.h"

namespace sluice::pause_test {
namespace {

SchedulerLimits limits() {
  SchedulerLimits l;
  l.max_batched_tokens = 256;
  l.max_seqs = 4;
  l.max_model_len = 4096;
  l.latent_pages = 8;
  l.window_pages = 64;
  l.geometry = {.resume_pages = 1, .has_latents = true, .has_windows = true};
  l.watermark_pages = 0;
  return l;
}

bool has_span(const StepPlan& plan, int i) {
  return std::any_of(plan.spans.begin(), plan.spans.end(), [=](const Span& s) { return s.sequence.value == i; });
}

TEST(PauseTest, APausedSequenceGetsNoRowsAndKeepsItsMemory) {
  SchedulerWorld w(limits());
  w.add(0, {10, 100});
  w.add(1, {10, 100});
  w.steps(3);
  const Position before = w.computed(0);
  w.scheduler.set_paused(SequenceId(0), true);
  EXPECT_EQ(w.scheduler.paused(), 1);
  for (int i = 0; i < 5; ++i) {
    const StepPlan plan = w.step();
    EXPECT_FALSE(has_span(plan, 0));
    EXPECT_TRUE(has_span(plan, 1));
  }
  EXPECT_TRUE(w.runs(0));
  EXPECT_EQ(w.computed(0), before);
  w.scheduler.set_paused(SequenceId(0), false);
  EXPECT_TRUE(has_span(w.step(), 0));
  EXPECT_EQ(w.computed(0), before + 1);
}

TEST(PauseTest, AHalfComputedPromptWaitsWhereItIs) {
  SchedulerWorld w(limits());
  w.add(0, {600, 10});
  w.step();
  w.scheduler.set_paused(SequenceId(0), true);
  EXPECT_TRUE(w.step().empty());
  w.add(1, {20, 5});
  EXPECT_TRUE(has_span(w.step(), 1)) << "the rows are free for others";
  w.scheduler.set_paused(SequenceId(0), false);
  EXPECT_TRUE(has_span(w.step(), 0));
}

TEST(PauseTest, ThePausedOneLeavesFirstThoughItCameFirst) {
  SchedulerLimits l = limits();
  l.latent_pages = 4;
  SchedulerWorld w(l, 0, false);
  w.add(0, {250, 100});  // two pages
  w.add(1, {120, 200});  // grows into a second and a third
  w.steps(2);
  w.scheduler.set_paused(SequenceId(0), true);
  while (w.runs(0)) w.step();
  EXPECT_TRUE(w.runs(1));
  EXPECT_EQ(w.scheduler.waiting_for()[static_cast<std::size_t>(WaitReason::kPaused)], 1);
  w.step();
  EXPECT_FALSE(w.runs(0)) << "it comes back when it is to go on";
  w.end(1);
  w.step();
  EXPECT_FALSE(w.runs(0));
  w.scheduler.set_paused(SequenceId(0), false);
  EXPECT_TRUE(has_span(w.step(), 0));
}

TEST(PauseTest, WhatWaitsDoesNotTakeThePagesOfAPausedOne) {
  SchedulerLimits l = limits();
  l.latent_pages = 4;
  SchedulerWorld w(l, 0, false);
  w.add(0, {350, 30});
  w.steps(2);
  w.scheduler.set_paused(SequenceId(0), true);
  w.add(1, {300, 10});
  EXPECT_TRUE(w.step().empty());
  EXPECT_TRUE(w.runs(0));
  EXPECT_EQ(w.scheduler.waiting_for()[static_cast<std::size_t>(WaitReason::kPages)], 1);
  w.end(0);
  EXPECT_TRUE(has_span(w.step(), 1));
}

TEST(PauseTest, ABetterPriorityTakesThePagesOfWorseOnesOnly) {
  SchedulerLimits l = limits();
  l.policy = SchedulingPolicy::kPriority;
  l.max_seqs = 2;
  SchedulerWorld w(l, 0, false);
  w.add(0, {20, 50, 0});
  w.add(1, {20, 50, 2});
  w.steps(2);
  w.scheduler.set_paused(SequenceId(0), true);
  w.add(2, {20, 50, 1});
  w.steps(2);
  EXPECT_TRUE(w.runs(0)) << "paused, and better";
  EXPECT_FALSE(w.runs(1));
  EXPECT_TRUE(w.runs(2));
}

TEST(PauseTest, APausedOneMayEndInEveryState) {
  SchedulerWorld w(limits());
  w.add(0, {20, 50});
  w.add(1, {700, 50});
  w.step();
  w.add(2, {20, 50});
  for (int i = 0; i < 3; ++i) w.scheduler.set_paused(SequenceId(i), true);
  EXPECT_EQ(w.scheduler.running() + w.scheduler.waiting(), w.scheduler.paused());
  EXPECT_TRUE(w.step().empty());
  for (int i = 0; i < 3; ++i) w.end(i);
  EXPECT_EQ(w.scheduler.paused(), 0);
  EXPECT_EQ(w.scheduler.running() + w.scheduler.waiting(), 0);
  for (const int waiting : w.scheduler.waiting_for()) EXPECT_EQ(waiting, 0);
}

}  // namespace
}  // namespace sluice::pause_test
