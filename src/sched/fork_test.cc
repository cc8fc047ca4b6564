// Sequences that share their past, and take turns to copy what they write.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sched/scheduler_world_testing.h"

namespace sluice::fork_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ForkTest, TheChildRunsWhereTheParentIs) {
  SchedulerWorld w(scarce_limits(50));
  w.add(0, {200, 5});
  w.step();
  ASSERT_TRUE(w.fork(0, 1));
  ASSERT_TRUE(w.fork(0, 2));
  EXPECT_EQ(w.scheduler.running(), 3);
  EXPECT_THAT(w.spans(), ElementsAre(Span{SequenceId(0), 200, 1, true}, Span{SequenceId(1), 200, 1, true},
                                     Span{SequenceId(2), 200, 1, true}));
  EXPECT_EQ(w.memory.free_latent_pages(), 50 - 4);  // one whole page for all, a copy of the other for each
}

TEST(ForkTest, AtABlockBoundaryNothingIsCopied) {
  SchedulerWorld w(scarce_limits(2));
  w.add(0, {128, 1});
  w.add(1, {128, 1});
  EXPECT_EQ(w.plan().spans.size(), 2U);
  w.scheduler.completed();
  SchedulerWorld v(scarce_limits(2));
  v.add(0, {128, 9});
  v.step();
  EXPECT_TRUE(v.fork(0, 1));
}

TEST(ForkTest, NeedsAPlaceAndPagesForTheCopies) {
  SchedulerLimits l = scarce_limits(50);
  l.max_seqs = 1;
  SchedulerWorld place(l);
  place.add(0, {20, 5});
  place.step();
  EXPECT_FALSE(place.fork(0, 1));
  EXPECT_EQ(place.scheduler.running() + place.scheduler.waiting(), 1);
  place.add(1, {20, 5});  // so it is added

  SchedulerWorld pages(scarce_limits(3));
  pages.add(0, {20, 5});
  pages.step();
  EXPECT_TRUE(pages.fork(0, 1));
  EXPECT_FALSE(pages.fork(0, 2));
  pages.step();
  EXPECT_EQ(pages.memory.free_latent_pages(), 1);

  l = scarce_limits(50);
  l.window_pages = 3;
  SchedulerWorld windows(l);
  windows.add(0, {20, 5});
  windows.step();
  EXPECT_FALSE(windows.fork(0, 1));
}

TEST(ForkTest, AHalfComputedPromptIsForkedToo) {
  SchedulerLimits l = scarce_limits(50);
  l.max_batched_tokens = 100;
  SchedulerWorld w(l);
  w.add(0, {150, 2});
  w.step();
  ASSERT_TRUE(w.fork(0, 1));
  EXPECT_THAT(w.spans(), ElementsAre(Span{SequenceId(0), 100, 50, true}, Span{SequenceId(1), 100, 50, true}));
}

TEST(ForkTest, SharersTakeTurnsToCopy) {
  for (const int parent_gone : {0, 1}) {
    SchedulerLimits l = scarce_limits(5);
    l.max_batched_tokens = 1;  // one row after the other
    SchedulerWorld w(l);
    w.add(0, {2, 200});
    w.steps(2);
    for (int child = 1; child < 4; ++child) ASSERT_TRUE(w.fork(0, child));
    EXPECT_FALSE(w.fork(0, 4));
    if (parent_gone == 1) w.end(0);
    for (int step = 0; step < 8; ++step) EXPECT_THAT(w.step().preemptions, IsEmpty());
    EXPECT_EQ(w.memory.free_latent_pages(), 1 + parent_gone);
  }
}

TEST(ForkTest, TheChildrenOfAFullPoolEndToo) {
  SchedulerWorld w(scarce_limits(4));
  w.add(0, {200, 312});  // all pages in the end
  w.step();
  ASSERT_TRUE(w.fork(0, 1));
  w.steps(700);
  EXPECT_EQ(w.scheduler.running() + w.scheduler.waiting(), 0);
}

}  // namespace
}  // namespace sluice::fork_test
