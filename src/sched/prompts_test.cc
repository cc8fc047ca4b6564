// Tests of how the rows of a step are shared between prompts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "base/sanitizer_testing.h"
#include "base/test_seed_testing.h"
#include "sched/scheduler_world_testing.h"

namespace sluice::prompts_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

SchedulerLimits limits(int budget, SchedulingPolicy policy = SchedulingPolicy::kFair) {
  return {.max_batched_tokens = budget,
          .max_seqs = 8,
          .max_model_len = 10000,
          .latent_pages = 1000,
          .window_pages = 1000,
          .geometry = {.resume_pages = 1, .has_latents = true, .has_windows = true},
          .policy = policy};
}

SequenceId id(int i) {
  return SequenceId(i);
}

// Rows by sequence.
std::map<int, int> rows(const StepPlan& plan) {
  std::map<int, int> rows;
  for (const Span& span : plan.spans) rows[span.sequence.value] += span.rows;
  return rows;
}

using Rows = std::map<int, int>;

// --- Fair shares ---

TEST(FairPromptsTest, AShortPromptDoesNotWaitForALongOne) {
  SchedulerWorld w(limits(512));
  w.add(0, {9000, 1});
  w.step();
  w.add(1, {101, 1});
  EXPECT_EQ(rows(w.step()), (Rows{{0, 411}, {1, 101}}));
  EXPECT_FALSE(w.alive(1));
}

TEST(FairPromptsTest, TheOldestGetsHalfAndTheShortestTheRest) {
  SchedulerWorld w(limits(200));
  w.add(0, {1000, 1});
  w.add(1, {900, 1});
  w.add(2, {800, 1});
  EXPECT_EQ(rows(w.step()), (Rows{{0, 100}, {2, 100}}));
}

TEST(FairPromptsTest, TiesGoToTheEarlier) {
  SchedulerWorld w(limits(200));
  for (int i = 0; i < 4; ++i) w.add(i, {1000, 1});
  EXPECT_EQ(rows(w.step()), (Rows{{0, 200}}));  // it is the shortest too
  EXPECT_EQ(rows(w.step()), (Rows{{0, 200}}));
}

TEST(FairPromptsTest, WhatOneHalfLeavesTheOtherTakes) {
  SchedulerWorld w(limits(200));
  w.add(0, {20, 1});
  w.add(1, {1000, 1});
  EXPECT_EQ(rows(w.step()), (Rows{{0, 20}, {1, 180}}));
  w.add(2, {30, 1});
  EXPECT_EQ(rows(w.step()), (Rows{{1, 170}, {2, 30}}));
}

TEST(FairPromptsTest, AnEndlessStreamOfShortPromptsDoesNotStarveALongOne) {
  SchedulerWorld w(limits(64));
  w.add(0, {2000, 1});
  int next = 1, steps = 0;
  for (; w.alive(0); ++steps) {
    ASSERT_LT(steps, 2000);
    while (w.scheduler.waiting() < 4) w.add(next++, {64, 1});
    w.step();
  }
  EXPECT_LE(steps, (2000 + 23) / 24);  // 3/8 of the budget each
}

TEST(FairPromptsTest, APromptBehindManyIsServedWithinTheBound) {
  SchedulerWorld w(limits(64));
  for (int i = 0; i < 6; ++i) w.add(i, {300, 1});
  w.add(6, {1500, 1});
  int next = 7, steps = 0;
  for (; w.alive(6); ++steps) {
    ASSERT_LT(steps, 2000);
    if (w.scheduler.waiting() < 2) w.add(next++, {20, 1});
    w.step();
  }
  EXPECT_LE(steps, 6 * ((300 + 23) / 24) + (1500 + 23) / 24);
}

// Any arrivals, decodes of any number, memory and places enough: the bound of scheduler.h.
TEST(FairPromptsTest, NoPromptWaitsBeyondTheBound) {
  const unsigned first = test_seed();
  for (unsigned i = 0; i < random_cases(120U); ++i) {
    SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << first + i);
    std::mt19937 random(first + i);
    const auto below = [&random](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    SchedulerLimits l = limits(20 + below(400));
    l.max_seqs = 10000;
    l.window_pages = 40000;
    l.latent_pages = 6000;
    l.long_prefill_token_threshold = below(3) == 0 ? 5 + below(100) : 0;
    SchedulerWorld w(l, 0, false);
    struct Waits {
      std::map<int, int> rows;  // rows of it and the older ones, when it arrived
      int steps = 0, least = 1 << 30;
    };
    std::map<int, Waits> waits;
    std::map<int, int> rows_left;
    int next = 0;
    for (int now = 0; now < 200; ++now) {
      for (int n = below(3); n > 0; --n) {
        const int prompt = 1 + below(below(3) ? 100 : 1500);
        w.add(next, {prompt, 1 + below(4)});
        rows_left[next] = prompt;
        waits[next].rows = rows_left;
        ++next;
      }
      int decodes = 0;
      for (int k = 0; k < next; ++k) decodes += w.alive(k) && rows_left.count(k) == 0;
      const int oldest = rows_left.empty() ? -1 : rows_left.begin()->first;
      const StepPlan plan = w.step();
      const int half = (l.max_batched_tokens - decodes + 1) / 2;
      if (oldest >= 0 && half > 0) {
        int least = l.long_prefill_token_threshold > 0 ? std::min(half, l.long_prefill_token_threshold) : half;
        least -= (least - 1) / 4;  // less than a quarter
        ASSERT_GE(rows(plan)[oldest], std::min(least, rows_left[oldest])) << "the oldest has less than its share";
        for (auto& [k, wait] : waits) wait.least = std::min(wait.least, least);
      }
      for (auto& [k, wait] : waits) ++wait.steps;
      for (const Span& span : plan.spans) {
        const auto left = rows_left.find(span.sequence.value);
        if (left == rows_left.end()) continue;
        left->second -= span.rows;
        if (left->second > 0) continue;
        const Waits& wait = waits.at(left->first);
        int bound = 0;
        for (const auto& [k, of] : wait.rows) bound += (of + wait.least - 1) / wait.least;
        ASSERT_LE(wait.steps, bound);
        waits.erase(left->first);
        rows_left.erase(left);
      }
    }
  }
}

// --- First come, first served; priorities ---

TEST(FcfsPromptsTest, EachTakesAsMuchAsItCanInOrder) {
  SchedulerWorld w(limits(200, SchedulingPolicy::kFcfs));
  w.add(0, {150, 1});
  w.add(1, {100, 1});
  w.add(2, {10, 1});
  EXPECT_EQ(rows(w.step()), (Rows{{0, 150}, {1, 50}}));
  EXPECT_EQ(rows(w.step()), (Rows{{1, 50}, {2, 10}}));
}

TEST(FcfsPromptsTest, NobodyPassesOneThatHasNoRoom) {
  SchedulerLimits l = limits(600, SchedulingPolicy::kFcfs);
  l.latent_pages = 6;
  SchedulerWorld w(l);
  w.add(0, {400, 20});
  w.step();
  w.add(1, {300, 1});
  w.add(2, {5, 1});
  EXPECT_THAT(w.step().admissions, IsEmpty());
  w.end(0);
  EXPECT_EQ(w.step().admissions.size(), 2U);
}

TEST(PriorityPromptsTest, TheBestPriorityGoesFirstThenTheEarlier) {
  SchedulerWorld w(limits(100, SchedulingPolicy::kPriority));
  w.add(0, {80, 1, 1});
  w.add(1, {80, 1, 0});
  w.add(2, {80, 1, 0});
  w.add(3, {80, 1, -1});
  EXPECT_EQ(rows(w.step()), (Rows{{3, 80}, {1, 20}}));
  EXPECT_EQ(rows(w.step()), (Rows{{1, 60}, {2, 40}}));
  EXPECT_EQ(rows(w.step()), (Rows{{2, 40}, {0, 60}}));
}

TEST(PriorityPromptsTest, OtherPoliciesDoNotLookAtPriorities) {
  SchedulerWorld w(limits(100, SchedulingPolicy::kFcfs));
  w.add(0, {80, 1, 5});
  w.add(1, {80, 1, 0});
  EXPECT_EQ(rows(w.step()), (Rows{{0, 80}, {1, 20}}));
}

TEST(PrefillFirstTest, DecodesWaitForAllPrompts) {
  SchedulerWorld w(limits(100, SchedulingPolicy::kPrefillFirst));
  w.add(0, {50, 9});
  EXPECT_EQ(rows(w.step()), (Rows{{0, 50}}));
  EXPECT_EQ(rows(w.step()), (Rows{{0, 1}}));
  w.add(1, {150, 9});
  w.add(2, {20, 9});
  EXPECT_EQ(rows(w.step()), (Rows{{1, 100}}));
  EXPECT_EQ(rows(w.step()), (Rows{{1, 50}, {2, 20}}));
  EXPECT_EQ(rows(w.step()), (Rows{{0, 1}, {1, 1}, {2, 1}}));
}

// --- Chunks: threshold, slivers, alignment ---

TEST(PromptChunksTest, TheThresholdCapsEveryChunk) {
  const auto chunks = [](int threshold, int prompt) {
    SchedulerLimits l = limits(64);
    l.long_prefill_token_threshold = threshold;
    SchedulerWorld w(l);
    w.add(0, {prompt, 1});
    std::vector<int> chunks;
    while (w.alive(0)) chunks.push_back(w.step().rows);
    return chunks;
  };
  EXPECT_THAT(chunks(0, 20), ElementsAre(20));
  EXPECT_THAT(chunks(8, 20), ElementsAre(8, 8, 4));
  EXPECT_THAT(chunks(16, 5), ElementsAre(5));
}

TEST(PromptChunksTest, TheThresholdLeavesRowsToOthers) {
  for (const SchedulingPolicy policy : {SchedulingPolicy::kFair, SchedulingPolicy::kFcfs}) {
    SchedulerLimits l = limits(512, policy);
    l.long_prefill_token_threshold = 8;
    SchedulerWorld w(l);
    w.add(0, {20, 2});
    w.add(1, {20, 2});
    EXPECT_EQ(rows(w.step()), (Rows{{0, 8}, {1, 8}}));
    EXPECT_EQ(rows(w.step()), (Rows{{0, 8}, {1, 8}}));
    EXPECT_EQ(rows(w.step()), (Rows{{0, 4}, {1, 4}}));
  }
}

TEST(PromptChunksTest, ThresholdAndBudgetTogether) {
  SchedulerLimits l = limits(192);
  l.long_prefill_token_threshold = 128;
  SchedulerWorld w(l);
  w.add(0, {320, 1});
  w.add(1, {320, 1});
  EXPECT_EQ(rows(w.step()), (Rows{{0, 128}, {1, 64}}));
}

// Rows that the prefix cache saves do not count against the threshold, and the remaining rows do not escape it.
TEST(PromptChunksTest, TheThresholdCapsAResumedPrompt) {
  SchedulerLimits l = limits(1000);
  l.long_prefill_token_threshold = 40;
  SchedulerWorld w(l);
  w.add(0, {513, 1}, 1, 512);
  for (int i = 0; i < 13; ++i) w.step();
  ASSERT_FALSE(w.alive(0));
  w.add(1, {612, 1}, 1, 512);
  EXPECT_THAT(w.step().spans, ElementsAre(Span{id(1), 512, 40, false}));
  EXPECT_THAT(w.step().spans, ElementsAre(Span{id(1), 552, 40, false}));
  EXPECT_THAT(w.step().spans, ElementsAre(Span{id(1), 592, 20, true}));
}

TEST(PromptChunksTest, NoThresholdWhereChunksAreOff) {
  SchedulerLimits l = limits(10000);
  l.chunked_prefill = false;
  l.long_prefill_token_threshold = 8;
  SchedulerWorld w(l);
  w.add(0, {20, 1});
  EXPECT_EQ(rows(w.step()), (Rows{{0, 20}}));
}

TEST(PromptChunksTest, TheRestOfTheBudgetIsUsedUnlessItIsASliver) {
  SchedulerWorld w(limits(200, SchedulingPolicy::kFcfs));
  for (int i = 0; i < 3; ++i) w.add(i, {128, 1});
  EXPECT_EQ(rows(w.step()), (Rows{{0, 128}, {1, 72}}));
  SchedulerWorld sliver(limits(140, SchedulingPolicy::kFcfs));
  for (int i = 0; i < 3; ++i) sliver.add(i, {128, 1});
  EXPECT_EQ(rows(sliver.step()), (Rows{{0, 128}}));  // 12 rows are left, 17 are worth a span
  SchedulerWorld end(limits(140, SchedulingPolicy::kFcfs));
  end.add(0, {128, 1});
  end.add(1, {12, 1});  // a whole prompt is not a sliver
  EXPECT_EQ(rows(end.step()), (Rows{{0, 128}, {1, 12}}));
}

TEST(PromptChunksTest, TheFirstPromptOfAStepTakesWhateverIsLeft) {
  SchedulerLimits l = limits(64);
  l.max_seqs = 64;
  SchedulerWorld w(l);
  for (int i = 0; i < 63; ++i) w.add(i, {1, 50});
  w.step();
  w.add(63, {500, 1});
  EXPECT_EQ(rows(w.step())[63], 1);
}

TEST(PromptChunksTest, AChunkEndsAtABlockWhereOthersUseTheRest) {
  SchedulerWorld w(limits(300, SchedulingPolicy::kFcfs));
  w.add(0, {1000, 1});
  w.add(1, {40, 1});
  EXPECT_EQ(rows(w.step()), (Rows{{0, 260}, {1, 40}}));  // 256, and 4 that no other wanted
  EXPECT_EQ(rows(w.step()), (Rows{{0, 300}}));           // alone it takes all
  SchedulerWorld two(limits(300, SchedulingPolicy::kFcfs));
  two.add(0, {1000, 1});
  two.add(1, {1000, 1});
  EXPECT_EQ(rows(two.step()), (Rows{{0, 256}, {1, 44}}));
  SchedulerWorld far(limits(200, SchedulingPolicy::kFcfs));  // 72 of 200 rows are too many to give away
  far.add(0, {1000, 1});
  far.add(1, {1000, 1});
  EXPECT_EQ(rows(far.step()), (Rows{{0, 200}}));
}

TEST(PromptChunksTest, SpansShrinkWhereWindowPagesAreShort) {
  SchedulerLimits l = limits(1000, SchedulingPolicy::kFcfs);
  l.window_pages = 4;
  l.max_seqs = 2;
  SchedulerWorld w(l);
  w.add(0, {1000, 1});
  w.add(1, {1000, 1});
  // Two pages of its own and the two spare ones.
  EXPECT_THAT(w.step().spans, ElementsAre(Span{id(0), 0, 512, false}));
  // Position 512 sees block 3, so blocks 3 to 6; or two of them are promised to the other.
  EXPECT_THAT(w.step().spans, ElementsAre(Span{id(0), 512, 384, false}));
  EXPECT_THAT(w.step().spans, ElementsAre(Span{id(0), 896, 104, true}, Span{id(1), 0, 256, false}));
}

// --- Whole prompts ---

SchedulerLimits whole_prompts(int budget) {
  SchedulerLimits l = limits(budget);
  l.chunked_prefill = false;
  l.max_model_len = budget;
  return l;
}

TEST(WholePromptsTest, APromptIsNeverCut) {
  SchedulerWorld w(whole_prompts(100));
  w.add(0, {60, 1});
  w.add(1, {50, 1});
  w.add(2, {40, 1});
  EXPECT_EQ(rows(w.step()), (Rows{{0, 60}, {2, 40}}));
  EXPECT_EQ(rows(w.step()), (Rows{{1, 50}}));
}

TEST(WholePromptsTest, WhatDoesNotFitBesideTheDecodesHasAStepOfItsOwn) {
  SchedulerWorld w(whole_prompts(100));
  w.add(0, {1, 50});
  w.step();
  w.add(1, {95, 3});
  w.add(2, {98, 2});
  EXPECT_EQ(rows(w.step()), (Rows{{0, 1}, {1, 95}}));
  EXPECT_EQ(rows(w.step()), (Rows{{0, 1}, {1, 1}, {2, 98}}));
  w.add(3, {99, 1});
  EXPECT_EQ(rows(w.step()), (Rows{{0, 1}, {1, 1}, {2, 1}}));
  EXPECT_EQ(rows(w.step()), (Rows{{3, 99}}));
  EXPECT_EQ(rows(w.step()), (Rows{{0, 1}}));
}

TEST(WholePromptsTest, DecodesWaitOneStepAtATime) {
  SchedulerWorld w(whole_prompts(100));
  w.add(0, {1, 60});
  w.step();
  for (int i = 1; i < 8; ++i) w.add(i, {99, 1});
  int waited = 0;
  for (int step = 0; step < 40; ++step) {
    waited = rows(w.step()).count(0) != 0 ? 0 : waited + 1;
    EXPECT_LE(waited, 1);
  }
  for (int i = 1; i < 8; ++i) EXPECT_FALSE(w.alive(i));
}

TEST(WholePromptsTest, AHitMakesAPromptFit) {
  SchedulerLimits l = whole_prompts(600);
  SchedulerWorld w(l);
  w.add(0, {520, 40}, 1, 512);
  w.step();
  w.add(1, {580, 1}, 1, 512);  // 512 of them are cached
  EXPECT_EQ(rows(w.step())[0], 1);
  EXPECT_FALSE(w.alive(1));
}

// --- Separate steps ---

TEST(UnmixedStepsTest, PromptsAndDecodesAlternate) {
  SchedulerLimits l = limits(10);
  l.mixed = false;
  SchedulerWorld w(l);
  w.add(0, {4, 10});
  EXPECT_EQ(rows(w.step()), (Rows{{0, 4}}));
  w.add(1, {25, 5});
  EXPECT_EQ(rows(w.step()), (Rows{{0, 1}}));
  EXPECT_EQ(rows(w.step()), (Rows{{1, 10}}));
  EXPECT_EQ(rows(w.step()), (Rows{{0, 1}}));
  EXPECT_EQ(rows(w.step()), (Rows{{1, 10}}));
  EXPECT_EQ(rows(w.step()), (Rows{{0, 1}}));
  EXPECT_EQ(rows(w.step()), (Rows{{1, 5}}));
  EXPECT_EQ(rows(w.step()), (Rows{{0, 1}, {1, 1}}));
  EXPECT_EQ(rows(w.step()), (Rows{{0, 1}, {1, 1}}));
}

TEST(UnmixedStepsTest, MixedIsTheDefault) {
  EXPECT_TRUE(SchedulerLimits().mixed);
  SchedulerWorld w(limits(10));
  w.add(0, {4, 10});
  w.step();
  w.add(1, {4, 10});
  EXPECT_EQ(rows(w.step()), (Rows{{0, 1}, {1, 4}}));
}

}  // namespace
}  // namespace sluice::prompts_test
