#include "engine/stepper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/stepper_testing.h"

namespace sluice {
namespace {

using ::testing::Pair;
using ::testing::UnorderedElementsAre;

// A sequence is admitted behind a window page that only the sequence held which the same plan swaps out.
TEST(StepperTest, AHitOnPagesOfASequenceThatIsSwappedInTheSamePlan) {
  EngineOptions options = small_options();
  options.max_num_batched_tokens = 256;
  options.swap_space = 1 << 20;
  options.force_preempt_every = 1;
  Stage stage(options);
  const auto prompt = random_tokens(900, 1);
  const auto branch = joined({prompt.begin(), prompt.begin() + 512}, random_tokens(100, 2));
  stage.add("first", prompt, 3);
  EXPECT_THAT(stage.step(), UnorderedElementsAre(Pair("first", Pair(0, 256))));
  EXPECT_TRUE(stage.step().empty());  // preempted, to be computed again
  EXPECT_THAT(stage.step(), UnorderedElementsAre(Pair("first", Pair(256, 256))));
  stage.add("branch", branch, 3);
  EXPECT_THAT(stage.step(), UnorderedElementsAre(Pair("branch", Pair(512, 100))));
  ASSERT_EQ(stage.stats().preemptions_swap, 1U);
  stage.run();
  EXPECT_EQ(stage.answer("first"), greedy_alone(prompt, 3));
  EXPECT_EQ(stage.answer("branch"), greedy_alone(branch, 3));
}

TEST(StepperTest, OfTwoThatArriveTogetherTheSecondWaitsForTheCommonPrefix) {
  EngineOptions options = small_options();
  options.max_num_batched_tokens = 1024;
  Stage stage(options);
  const auto prompt = random_tokens(300, 1);
  stage.add("first", prompt, 3);
  stage.add("second", prompt, 3);
  EXPECT_THAT(stage.step(), UnorderedElementsAre(Pair("first", Pair(0, 300))));
  EXPECT_EQ(stage.stats().cache.shared_waits, 1U);
  EXPECT_THAT(stage.step(), UnorderedElementsAre(Pair("first", Pair(300, 1)), Pair("second", Pair(256, 44))));
  stage.run();
  EXPECT_EQ(stage.answer("first"), greedy_alone(prompt, 3));
  EXPECT_EQ(stage.answer("second"), stage.answer("first"));
}

}  // namespace
}  // namespace sluice
