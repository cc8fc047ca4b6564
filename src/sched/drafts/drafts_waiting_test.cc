// Tests whether drafts are worth a wait for tokens that are on their way.
#include <gtest/gtest.h>

#include <vector>

#include "sched/drafts/drafting_testing.h"

namespace sluice::drafts_waiting_test {
namespace {

// Limits of a device that runs one step after another without a wait for tokens: a row is cheap.
DraftLimits waits(double wait) {
  DraftLimits limits = cost(0.1, 4);
  limits.wait = wait;
  return limits;
}

TEST(DraftsWaitingTest, WaitingForTokensPaysIfTheDraftsDo) {
  const auto pays = [](double wait, DraftSource source, bool predicted) {
    Drafting one(waits(wait), 1);
    const DraftOffer offer{one.world().scheduler.decoding(0), source, 4, predicted};
    return one.world().scheduler.waiting_pays({&offer, 1});
  };
  EXPECT_TRUE(pays(0.1, DraftSource::kLongCopy, false));
  EXPECT_FALSE(pays(2, DraftSource::kLongCopy, false));
  // 0.4 + 0.24 + ... tokens; of a chain that begins with what is on its way, 0.24 + 0.14 + ...
  EXPECT_TRUE(pays(0.1, DraftSource::kShortCopy, false));
  EXPECT_FALSE(pays(0.1, DraftSource::kShortCopy, true));
}

// Two waits to begin, one to go on.
TEST(DraftsWaitingTest, ToBeginWithDraftsIsHarderThanToGoOn) {
  Drafting one(waits(1.5), 1);
  const DraftOffer offer{one.world().scheduler.decoding(0), DraftSource::kLongCopy, 4};
  EXPECT_FALSE(one.world().scheduler.waiting_pays({&offer, 1}));
  EXPECT_GT(one.step(4, 4, DraftSource::kLongCopy), 0);
}

// Tokens that were predicted teach what drafts would have been, and cost none.
TEST(DraftsWaitingTest, WhatWasPredictedIsLearnt) {
  Drafting one(waits(0.1), 1);
  Scheduler& scheduler = one.world().scheduler;
  const DraftOffer offer{scheduler.decoding(0), DraftSource::kLongCopy, 4};
  EXPECT_TRUE(scheduler.waiting_pays({&offer, 1}));
  for (int i = 0; i < 30; ++i) scheduler.record_prediction(offer.sequence, offer.source, false);
  EXPECT_FALSE(scheduler.waiting_pays({&offer, 1}));
  for (int i = 0; i < 30; ++i) scheduler.record_prediction(offer.sequence, offer.source, true);
  EXPECT_TRUE(scheduler.waiting_pays({&offer, 1}));
}

// Steps that wait for a try take a small part of the time, whatever comes of them.
TEST(DraftsWaitingTest, AWaitForATryIsPaidForBefore) {
  constexpr int kPlans = 2000;
  constexpr double kWait = 0.1;
  Drafting some(waits(kWait), 4);
  Scheduler& scheduler = some.world().scheduler;
  std::vector<DraftOffer> offers;
  for (int i = 0; i < 4; ++i) offers.push_back({scheduler.decoding(i), DraftSource::kMtp, 4});
  for (const DraftOffer& offer : offers) {
    for (int i = 0; i < 30; ++i) scheduler.record_prediction(offer.sequence, offer.source, false);
  }
  int waited = 0;
  for (int i = 0; i < kPlans; ++i) waited += scheduler.waiting_pays(offers) ? 1 : 0;
  EXPECT_GT(waited, kPlans / 1000);
  EXPECT_LE(2 * waited * kWait, 0.01 * kPlans * waits(0).step(4));
}

// An offer for each that decodes.
std::vector<DraftOffer> offers(const Scheduler& scheduler, int tokens, DraftSource source) {
  std::vector<DraftOffer> offers;
  for (int i = 0; i < scheduler.decoding(); ++i) offers.push_back({scheduler.decoding(i), source, tokens});
  return offers;
}

void never_right(Scheduler& scheduler, const std::vector<DraftOffer>& offers) {
  for (const DraftOffer& offer : offers) {
    for (int i = 0; i < 30; ++i) scheduler.record_prediction(offer.sequence, offer.source, false);
  }
}

// No wait comes before a step that is to have no drafts, for comparison; the others have one.
TEST(DraftsWaitingTest, NoStepWaitsThatWillHaveNoDrafts) {
  Drafting one(waits(0.1), 1);
  Scheduler& scheduler = one.world().scheduler;
  int without = 0;
  for (int i = 0; i < 200; ++i) {
    const bool pays = scheduler.waiting_pays(offers(scheduler, 4, DraftSource::kLongCopy));
    const int drafts =
        one.step(4, 4, DraftSource::kLongCopy, [](int drafts) { return 1 + 0.1 * drafts + (drafts > 0 ? 0.1 : 0); });
    EXPECT_EQ(pays, drafts > 0) << "step " << i;
    without += pays ? 0 : 1;
  }
  EXPECT_GE(without, 2);
  EXPECT_LE(without, 6);
}

// The time of a wait for a try is saved before: 108 steps of 1.3, of which 1/128 is for tries.
TEST(DraftsWaitingTest, AWaitForATryComesWhenItIsPaidFor) {
  Drafting four(waits(0.5), 4);
  Scheduler& scheduler = four.world().scheduler;
  const auto wanted = offers(scheduler, 4, DraftSource::kMtp);
  never_right(scheduler, wanted);
  int plans = 0;
  while (plans < 1000 && !scheduler.waiting_pays(wanted)) ++plans;
  EXPECT_GE(plans, 106);
  EXPECT_LE(plans, 110);
}

// Sixteen rows of a twentieth each, and a wait: where drafts that are always right would not pay for it, none is tried.
TEST(DraftsWaitingTest, WhatCannotPayForAWaitIsNotTried) {
  for (const bool can : {true, false}) {
    DraftLimits limits = cost(0.05, 4);
    limits.wait = can ? 0.5 : 0.75;
    Drafting many(limits, 16);
    Scheduler& scheduler = many.world().scheduler;
    const auto wanted = offers(scheduler, 4, DraftSource::kMtp);
    never_right(scheduler, wanted);
    int waited = 0;
    for (int i = 0; i < 1000; ++i) waited += scheduler.waiting_pays(wanted) ? 1 : 0;
    EXPECT_EQ(waited > 0, can);
  }
}

TEST(DraftsWaitingTest, WhatIsPausedIsNotWaitedFor) {
  Drafting two(waits(0.1), 2);
  Scheduler& scheduler = two.world().scheduler;
  const DraftOffer offer{scheduler.decoding(0), DraftSource::kLongCopy, 4};
  EXPECT_TRUE(scheduler.waiting_pays({&offer, 1}));
  scheduler.set_paused(offer.sequence, true);
  EXPECT_FALSE(scheduler.waiting_pays({&offer, 1}));
  scheduler.set_paused(offer.sequence, false);
  EXPECT_TRUE(scheduler.waiting_pays({&offer, 1}));
}

// Decodes take all rows of a step.
TEST(DraftsWaitingTest, WhereNoRowIsLeftNothingIsWaitedFor) {
  for (const bool right : {true, false}) {
    Drafting four(waits(0.01), 4, 4);
    Scheduler& scheduler = four.world().scheduler;
    const auto wanted = offers(scheduler, 4, DraftSource::kLongCopy);
    if (!right) never_right(scheduler, wanted);
    for (int i = 0; i < 400; ++i) ASSERT_FALSE(scheduler.waiting_pays(wanted)) << "plan " << i;
  }
}

// One draft each, whose row and wait cost next to nothing, so that it has to be worth what is asked beyond: 6 % and 1 %
// for a sequence, of 32 at most.
TEST(DraftsWaitingTest, OfManySequencesDraftsHaveToGainMore) {
  const auto pays = [](int sequences, DraftSource source) {
    DraftLimits limits = cost(0);
    limits.wait = 1e-6;
    Drafting some(limits, sequences, 512);
    return some.world().scheduler.waiting_pays(offers(some.world().scheduler, 1, source));
  };
  EXPECT_TRUE(pays(1, DraftSource::kShortCopy));    // 1.40 tokens for one in about the same time, 1.07 are asked
  EXPECT_FALSE(pays(40, DraftSource::kShortCopy));  // 1.29, 1.38 are asked
  EXPECT_TRUE(pays(64, DraftSource::kMtp));         // 1.56, 1.38 are asked
}

// The rate is also expected of later sequences.
TEST(DraftsWaitingTest, WhatWasPredictedIsExpectedOfOthers) {
  for (const bool right : {true, false}) {
    Drafting one(waits(0.1), 1);
    SchedulerWorld& world = one.world();
    for (int i = 0; i < 60; ++i) world.scheduler.record_prediction(SequenceId(0), DraftSource::kLongCopy, right);
    world.add(1, {3, 1000});
    while (world.scheduler.decoding() < 2) world.step();
    const DraftOffer offer{SequenceId(1), DraftSource::kLongCopy, 4};
    EXPECT_EQ(world.scheduler.waiting_pays({&offer, 1}), right);
  }
}

}  // namespace
}  // namespace sluice::drafts_waiting_test
