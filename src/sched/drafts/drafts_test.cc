// Tests of the number of drafts in a plan, and of the sequences that get them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "sched/drafts/drafting_testing.h"

namespace sluice::drafts_test {
namespace {

TEST(DraftsTest, RowsThatCostNothingAreAllGiven) {
  Drafting one(cost(0), 1);
  EXPECT_EQ(one.step(8, 8), 8);
  Drafting two({.most = 3, .adaptive = true, .step_seconds = {}}, 2);
  EXPECT_EQ(two.step(8, 8), 6);
}

TEST(DraftsTest, RowsThatCostAsMuchAsAStepAreNotGiven) {
  Drafting one(cost(1), 1);
  EXPECT_EQ(one.step(8, 8), 0);
}

// A prompt fills the step, so a row more is a small part of it; but the prompt's rows are worth what they take.
TEST(DraftsTest, BesidePromptsRowsCostTheSame) {
  for (const double of_row : {1.0, 0.1}) {
    Drafting drafting(cost(of_row), 4, 128);
    drafting.world().add(4, {500, 1});
    const StepPlan plan = drafting.plan(8);
    int drafts = 0;
    for (const Span& span : plan.spans) drafts += span.drafts;
    EXPECT_EQ(drafts > 0, of_row < 1);
  }
}

// Rows of a full step are dear here, those of a small step are not: with prompts in the step, drafts are neither given
// nor tried at the lower price.
TEST(DraftsTest, BesidePromptsARowCostsWhatItDoesInAFullStep) {
  DraftLimits limits = cost(0);
  for (std::size_t rows = 10; rows < limits.step_seconds.size(); ++rows) {
    limits.step_seconds[rows] = 1 + static_cast<double>(rows - 9);
  }
  Drafting alone(limits, 4, 16), beside(limits, 4, 16);
  EXPECT_GT(alone.step(2, 2), 0);
  beside.world().add(4, {1500, 1});
  for (int i = 0; i < 100; ++i) ASSERT_EQ(beside.step(2, 2), 0) << "step " << i;
}

// The time of a step with a prompt's rows says nothing about drafts.
TEST(DraftsTest, StepsWithPromptsTeachNothing) {
  Drafting drafting(cost(0.1), 2, 128);
  drafting.world().add(2, {1900, 1});
  for (int i = 0; i < 12; ++i) EXPECT_GT(drafting.step(2, 2, DraftSource::kMtp, [](int) { return 1000; }), 0) << i;
}

// Real steps take other times than were measured at the start: these count, but one slow step in ten does not.
TEST(DraftsTest, StepsThatTakeLongerCount) {
  for (const bool dear : {true, false}) {
    Drafting drafting(cost(dear ? 0.1 : 0.8), 1);
    int of_last = 0;
    for (int i = 0; i < 400; ++i) {
      const double slow = i % 10 == 9 ? 20 : 1;
      const int drafts =
          drafting.step(1, 1, DraftSource::kMtp, [&](int drafts) { return slow * (1 + (dear ? 1.2 : 0.3) * drafts); });
      if (i >= 200) of_last += drafts;
    }
    EXPECT_EQ(of_last > 100, !dear) << of_last;
  }
}

// If all steps take longer for a while, earlier quicker steps with drafts are not compared with them.
TEST(DraftsTest, SlowTimesMakeNoneCheaper) {
  Drafting drafting(cost(0.4), 1);
  int drafts_then = 0;
  for (int i = 0; i < 990; ++i) {
    const bool slow = i % 330 >= 300;
    const int right = i % 20 < 9 ? 1 : 0;  // too few to pay
    const int drafts =
        drafting.step(1, right, DraftSource::kMtp, [&](int drafts) { return (slow ? 2 : 1) * (1 + 0.4 * drafts); });
    if (slow) drafts_then += drafts;
  }
  EXPECT_LE(drafts_then, 1);
}

// The first step with drafts reads what lies in no cache yet: sequences went without drafts for hundreds of steps.
TEST(DraftsTest, TheFirstStepAloneMakesNoneDearer) {
  Drafting drafting(cost(0.3), 1);
  int steps_with = 0, all = 0;
  for (int i = 0; i < 200; ++i) {
    const int drafts = drafting.step(1, 1, DraftSource::kMtp, [&](int drafts) {
      steps_with += drafts > 0 ? 1 : 0;
      return 1 + (steps_with == 1 ? 3 : 0.3) * drafts;
    });
    all += drafts;
  }
  EXPECT_GT(all, 100);
}

// A start that other work disturbed may say that rows cost nothing.
TEST(DraftsTest, RowsThatAreSaidToCostNothingAreLearnt) {
  Drafting drafting(cost(0), 1);
  int at_first = 0, later = 0;
  for (int i = 0; i < 400; ++i) {
    const int drafts = drafting.step(4, 1, DraftSource::kMtp, [](int drafts) { return 1 + 1.5 * drafts; });
    (i < 200 ? at_first : later) += drafts;
  }
  EXPECT_GE(at_first, 4);
  EXPECT_LT(later, 10);
}

TEST(DraftsTest, WhatIsRightMoreOftenGetsMore) {
  int last = 0;
  for (const int right : {1, 2, 8}) {
    Drafting drafting(cost(0.25), 1);
    int drafts = 0;
    for (int i = 0; i < 40; ++i) drafts = drafting.step(8, right);
    EXPECT_GE(drafts, last) << right;
    last = drafts;
  }
  EXPECT_EQ(last, 8);
  Drafting wrong(cost(0.25), 1);
  int drafts = 0;
  for (int i = 0; i < 40; ++i) drafts = wrong.step(8, 0);
  EXPECT_EQ(drafts, 0);
}

// It is tried again, after some fifty steps and then less and less often, and comes back when its drafts are right
// again.
TEST(DraftsTest, ASequenceWithoutDraftsTriesAgain) {
  Drafting drafting(cost(0.25), 1);
  for (int i = 0; i < 40; ++i) drafting.step(8, 0);
  int tried = 0;
  for (int i = 0; i < 200; ++i) tried += drafting.step(8, 0);
  EXPECT_GE(tried, 2);
  EXPECT_LE(tried, 4);
  int drafts = 0;
  for (int i = 0; i < 1000 && drafts < 2; ++i) drafts = drafting.step(8, 8);
  EXPECT_GE(drafts, 2);
}

// Less and less often, counted from its last draft; and as at first when one was right, which alone makes none pay.
TEST(DraftsTest, TriesAreFartherAndFartherApart) {
  Drafting drafting(cost(0.3), 1);
  for (int i = 0; i < 50; ++i) drafting.step(1, 1);  // all right
  std::vector<int> gaps;
  const auto wait_for_one = [&](int right) {
    int steps = 1;
    while (drafting.step(1, right) == 0) ++steps;
    gaps.push_back(steps);
  };
  while (gaps.empty() || gaps.back() == 1) wait_for_one(0);
  gaps.erase(gaps.begin(), gaps.end() - 1);
  for (const int right : {0, 0, 1, 0}) wait_for_one(right);
  EXPECT_THAT(gaps, ::testing::ElementsAre(48, 96, 192, 192, 48));
}

// One draft pays and a second that is as likely does not: it is that of whose turn is first.
TEST(DraftsTest, OfEquallyLikelyDraftsNoMoreAreGivenThanPay) {
  DraftLimits limits = cost(0.01);
  for (std::size_t row = 3; row < limits.step_seconds.size(); ++row) limits.step_seconds[row] += 2;
  Drafting two(limits, 2);
  const SequenceId first = two.world().scheduler.decoding(0);
  const StepPlan plan = two.plan(1);
  for (const Span& span : plan.spans) EXPECT_EQ(span.drafts, span.sequence == first ? 1 : 0);
}

// Drafts go beyond the block of the newest token only if no sequence waits for pages.
TEST(DraftsTest, APageThatSomebodyWaitsForIsNotTaken) {
  for (const bool waits : {false, true}) {
    SchedulerLimits limits;
    limits.max_batched_tokens = 256;
    limits.max_seqs = 4;
    limits.max_model_len = 600;
    limits.latent_pages = 4;
    limits.geometry = {.resume_pages = 0, .has_latents = true, .has_windows = false};
    limits.drafts = {.most = 8, .adaptive = false, .step_seconds = {}};
    SchedulerWorld world(limits);
    world.add(0, {kBlockTokens - 8, 100});
    world.step();
    if (waits) world.add(1, {3 * kBlockTokens + 10, 10});  // all pages
    PlanFacts facts = world.memory.answers(&world.scheduler);
    facts.offers = {{SequenceId(0), DraftSource::kMtp, 8}};
    const StepPlan plan = world.scheduler.plan(facts);
    ASSERT_EQ(plan.spans.size(), 1U);
    EXPECT_EQ(plan.spans[0].drafts, waits ? 7 : 8);
  }
}

// The record of others is only where a sequence begins.
TEST(DraftsTest, ANewSequenceLearnsQuicklyThatItDiffers) {
  DraftRecord others;
  for (int i = 0; i < 50; ++i) others.add(DraftSource::kMtp, 1, 0);
  DraftRecord own = DraftRecord::like(others);
  for (int i = 0; i < 4; ++i) {
    own.add(DraftSource::kMtp, 1, 1);
    others.add(DraftSource::kMtp, 1, 1);
  }
  EXPECT_GE(DraftRecord::chance(own.levels(DraftSource::kMtp)[0]), 0.5);
  EXPECT_LE(DraftRecord::chance(others.levels(DraftSource::kMtp)[0]), 0.25);
}

// If a second draft is never right, the first still pays.
TEST(DraftsTest, TheFirstDraftIsJudgedByItself) {
  Drafting drafting(cost(0.5), 1);
  int drafts = 0;
  for (int i = 0; i < 40; ++i) drafts = drafting.step(8, 1);
  EXPECT_EQ(drafts, 1);
}

// If not even a draft that is always right pays, no sequence tries again and again.
TEST(DraftsTest, WhatCannotPayIsNotTriedAgain) {
  for (const double drafting_seconds : {0.0, 2.0}) {
    DraftLimits limits = cost(0.25);
    limits.seconds[static_cast<std::size_t>(DraftSource::kMtp)] = drafting_seconds;
    Drafting drafting(limits, 4);
    for (int i = 0; i < 40; ++i) drafting.step(8, 0);
    int tried = 0;
    for (int i = 0; i < 400; ++i) tried += drafting.step(8, 0);
    EXPECT_EQ(tried > 0, drafting_seconds == 0) << drafting_seconds;
  }
}

// Only the model's drafts take the time of drafting; those that cost nothing are taken even if they are right less
// often.
TEST(DraftsTest, OnlyTheirSourceIsCharged) {
  DraftLimits limits = cost(0.1);
  limits.seconds[static_cast<std::size_t>(DraftSource::kMtp)] = 0.8;
  Drafting model(limits, 1), copies(limits, 1);
  EXPECT_EQ(model.step(8, 8, DraftSource::kMtp), 0);
  EXPECT_GT(copies.step(8, 8, DraftSource::kLongCopy), 0);
  PlanFacts facts = copies.world().memory.answers(&copies.world().scheduler);
  facts.offers = {{SequenceId(0), DraftSource::kMtp, 4}, {SequenceId(0), DraftSource::kShortCopy, 4}};
  EXPECT_EQ(copies.world().scheduler.plan(facts).spans.at(0).source, DraftSource::kShortCopy);
}

// A new sequence is expected to be like the others, unless the number of drafts is fixed: then it depends on no other.
TEST(DraftsTest, ANewSequenceIsExpectedToBeLikeOthers) {
  for (const bool adaptive : {true, false}) {
    DraftLimits limits = cost(0.25);
    limits.adaptive = adaptive;
    Drafting drafting(limits, 1);
    for (int i = 0; i < 100; ++i) drafting.step(2, 0);
    SchedulerWorld& world = drafting.world();
    world.add(1, {3, 1000});
    PlanFacts before = world.memory.answers(&world.scheduler);
    const StepPlan prompt = world.scheduler.plan(before);
    world.memory.carry_out(prompt);
    world.memory.finish(prompt);
    world.scheduler.completed();
    for (const Span& span : prompt.spans) world.memory.append(span.sequence);
    PlanFacts facts = world.memory.answers(&world.scheduler);
    facts.offers = {{SequenceId(1), DraftSource::kMtp, 2}, {SequenceId(1), DraftSource::kCopy, 2}};
    const StepPlan plan = world.scheduler.plan(facts);
    const auto found = std::ranges::find(plan.spans, SequenceId(1), &Span::sequence);
    ASSERT_NE(found, plan.spans.end());
    EXPECT_EQ(found->source, adaptive ? DraftSource::kCopy : DraftSource::kMtp);
    EXPECT_GE(found->drafts, 1);
  }
}

// The sum of a step counts: in a step with sixteen sequences a draft that is right half of the time costs too much.
TEST(DraftsTest, TheSameChanceIsWorthLessBesideOthers) {
  DraftLimits limits = cost(0);
  for (std::size_t row = 0; row < limits.step_seconds.size(); ++row) {  // memory first, then arithmetic
    limits.step_seconds[row] = row < 8 ? 1 + 0.02 * static_cast<double>(row) : 0.2 * static_cast<double>(row);
  }
  Drafting one(limits, 1), many(limits, 16);
  EXPECT_GT(one.step(4, 1), 0);
  int drafts = 0;
  for (int i = 0; i < 30; ++i) drafts = many.step(4, 0);
  EXPECT_EQ(drafts, 0);
}

TEST(DraftsTest, DraftingCostsToo) {
  DraftLimits limits = cost(0.1);
  limits.seconds.fill(2);
  Drafting dear(limits, 1);
  EXPECT_EQ(dear.step(8, 8), 0);
}

// Drafts get a quarter of the rows that the decodes leave while a prompt wants rows.
TEST(DraftsTest, PromptsKeepThreeQuarters) {
  Drafting drafting({.most = 8, .adaptive = false, .step_seconds = {}}, 4, 44);
  EXPECT_EQ(drafting.step(8, 8), 32);
  drafting.world().add(4, {500, 1});
  const StepPlan plan = drafting.plan(8);
  int drafts = 0, prompt = 0;
  for (const Span& span : plan.spans) {
    drafts += span.drafts;
    prompt += span.sequence == SequenceId(4) ? span.rows : 0;
  }
  EXPECT_EQ(drafts, 10);
  EXPECT_EQ(prompt, 30);
}

TEST(DraftsTest, TheBetterOfTwoOffersIsTaken) {
  Drafting drafting({.most = 4, .adaptive = false, .step_seconds = {}}, 1);
  PlanFacts facts = drafting.world().memory.answers(&drafting.world().scheduler);
  facts.offers = {{SequenceId(0), DraftSource::kMtp, 2}, {SequenceId(0), DraftSource::kLongCopy, 4}};
  const StepPlan plan = drafting.world().scheduler.plan(facts);
  EXPECT_EQ(plan.spans.at(0).source, DraftSource::kLongCopy);
  EXPECT_EQ(plan.spans.at(0).drafts, 4);
}

}  // namespace
}  // namespace sluice::drafts_test
