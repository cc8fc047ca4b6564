#include "engine/step/stepper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "cache/damage_testing.h"
#include "engine/step/stepper_testing.h"

namespace sluice::stepper_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

// A sequence resumes after a window page that only one sequence held, which the same plan swaps out.
TEST(StepperTest, AHitOnPagesOfASequenceThatIsSwappedInTheSamePlan) {
  EngineSetup options = small_options();
  options.scheduler.max_num_batched_tokens = 256;
  options.cache.swap_space = 1 << 20;
  options.testing.force_preempt_every = 1;
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
  EngineSetup options = small_options();
  options.scheduler.max_num_batched_tokens = 1024;
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

TEST(StepperTest, WithNothingToDoAStepDoesNothing) {
  Stage stage;
  EXPECT_TRUE(stage.stepper().idle());
  EXPECT_TRUE(stage.step().empty());
  EXPECT_EQ(stage.stats().steps, 0U);
  stage.add("a", {1}, 1);
  EXPECT_FALSE(stage.stepper().idle());
  EXPECT_EQ(stage.stepper().counts().waiting, 1);
  stage.step();
  EXPECT_TRUE(stage.stepper().idle());
  EXPECT_TRUE(stage.step().empty());
}

TEST(StepperTest, AMiddlePieceOfAPromptSamplesNothing) {
  Stage stage;  // 64 rows a step
  const auto prompt = random_tokens(160, 1);
  stage.add("a", prompt, 2);
  for (const int first : {0, 64}) {
    EXPECT_THAT(stage.step(), UnorderedElementsAre(Pair("a", Pair(first, 64))));
    EXPECT_TRUE(stage.sampled().empty());
    EXPECT_TRUE(stage.runner().logits().all().empty());
    EXPECT_TRUE(stage.answer("a").empty());
  }
  EXPECT_THAT(stage.step(), UnorderedElementsAre(Pair("a", Pair(128, 32))));
  EXPECT_EQ(stage.answer("a").size(), 1U);
  stage.run();
  EXPECT_EQ(stage.answer("a"), greedy_alone(prompt, 2));
}

TEST(StepperTest, ADecodeRidesWithAPrompt) {
  EngineSetup options = small_options();
  options.scheduler.max_num_batched_tokens = 8;
  Stage stage(options);
  const auto a = random_tokens(3, 1), b = random_tokens(8, 2);
  stage.add("a", a, 5);
  stage.step();
  stage.add("b", b, 2);
  EXPECT_THAT(stage.step(), UnorderedElementsAre(Pair("a", Pair(3, 1)), Pair("b", Pair(0, 7))));
  EXPECT_THAT(stage.step(), UnorderedElementsAre(Pair("a", Pair(4, 1)), Pair("b", Pair(7, 1))));
  stage.run();
  EXPECT_EQ(stage.answer("a"), greedy_alone(a, 5));
  EXPECT_EQ(stage.answer("b"), greedy_alone(b, 2));
}

// A sequence that decodes but has no row in a step gets no token from it, and no other's.
TEST(StepperTest, ADecodeThatWaitsItsTurnGetsNoToken) {
  EngineSetup options = small_options();
  options.scheduler.max_num_batched_tokens = 2;
  Stage stage(options);
  const std::vector<TokenId> prompt = {7};
  const SequenceId first = stage.add("0", prompt, 12);
  const Result<ComputedStep> step = stage.stepper().begin().commit();
  ASSERT_TRUE(step.ok());
  ASSERT_EQ(step->sampled().size(), 1U);
  std::vector<std::string> names = {"0"};
  for (int i = 1; i < 4; ++i) {  // forks decode at once
    names.push_back(std::to_string(i));
    stage.fork(first, names.back());
  }
  stage.take(first, 0);
  int waits = 0;
  while (!stage.stepper().idle()) {
    std::map<std::string, std::size_t> before;
    for (const auto& name : names) before[name] = stage.answer(name).size();
    const auto computed = stage.step();
    EXPECT_LE(computed.size(), 2U);
    for (const auto& name : names) {
      EXPECT_EQ(stage.answer(name).size(), before[name] + computed.contains(name)) << name;
      waits += before[name] < 12 && !computed.contains(name);
    }
  }
  EXPECT_GT(waits, 10);
  for (const auto& name : names) EXPECT_EQ(stage.answer(name), greedy_alone(prompt, 12));
}

TEST(StepperTest, PreemptionLosesNoToken) {
  for (const bool swaps : {false, true}) {
    EngineSetup options = small_options();
    options.cache.swap_space = swaps ? 1 << 20 : 0;
    options.testing.force_preempt_every =
        1;  // in the middle of the prompt, at its end, and between all tokens of the answer
    Stage stage(options);
    const auto prompt = random_tokens(200, 1);
    const SequenceId id = stage.add("a", prompt, 10);
    std::size_t known = prompt.size();
    while (!stage.stepper().idle()) {
      stage.step();
      if (stage.stepper().idle()) break;
      const auto& tokens = stage.stepper().sequences()[id].tokens;
      EXPECT_GE(tokens.size(), known);
      EXPECT_TRUE(std::equal(prompt.begin(), prompt.end(), tokens.begin()));
      known = tokens.size();
      EXPECT_EQ(known, prompt.size() + stage.answer("a").size());
    }
    EXPECT_GT(stage.stats().preemptions_recompute, 3U);
    EXPECT_EQ(stage.stats().preemptions_swap > 3U, swaps);
    EXPECT_EQ(stage.stats().swaps_restored > 3U, swaps);
    EXPECT_EQ(stage.answer("a"), greedy_alone(prompt, 10));
  }
}

// Two pages, two sequences that both grow into a second one.
TEST(StepperTest, ADecodeWithoutAPagePreemptsTheLaterOne) {
  EngineSetup options = small_options();
  options.cache.enable_prefix_caching = false;
  const int pages = Stage(options).runner().cache().pools().latents().total() - 1;
  options.testing.hidden_latent_pages = pages - 3;  // one is left free by admissions, the watermark
  Stage stage(options);
  const auto a = random_tokens(120, 1), b = random_tokens(60, 2);
  stage.add("a", a, 200);
  stage.add("b", b, 200);
  bool preempted = false;
  for (int i = 0; i < 1000 && !stage.stepper().idle(); ++i) {
    stage.step();
    for (const Preemption& preemption : stage.stepper().plan().preemptions) {
      EXPECT_EQ(preemption.sequence, SequenceId(1));
      preempted = true;
    }
  }
  EXPECT_TRUE(preempted);
  EXPECT_EQ(stage.answer("a"), greedy_alone(a, 200));
  EXPECT_EQ(stage.answer("b"), greedy_alone(b, 200));
}

TEST(StepperTest, ASpanOf65536Rows) {
  FakeModel::Settings settings;
  settings.max_position_embeddings = 1 << 17;
  EngineSetup options = small_options();
  options.audit = false;
  options.scheduler.max_num_batched_tokens = 1 << 16;
  options.cache.kv_cache_memory = 64 << 20;
  Stage stage(options, settings);
  const auto prompt = random_tokens((1 << 16) + 5, 1);
  stage.add("a", prompt, 3);
  EXPECT_THAT(stage.step(), UnorderedElementsAre(Pair("a", Pair(0, 1 << 16))));
  stage.run();
  EXPECT_EQ(stage.answer("a"), greedy_alone(prompt, 3, settings));
}

// A step that cannot run changes nothing for those that were not in it.
TEST(StepperTest, AStepThatFailsEndsWhoWasInItOnly) {
  EngineSetup options = small_options();
  options.scheduler.max_num_seqs = 1;
  Stage stage(options);
  const auto waiting = random_tokens(50, 2);
  const SequenceId bad = stage.add("bad", {1, 2, 64}, 2);  // an id beyond the vocabulary, which submit() would refuse
  stage.add("waiting", waiting, 5);
  EXPECT_FALSE(stage.stepper().begin().commit().ok());
  EXPECT_THAT(stage.stepper().failed(), ::testing::ElementsAre(bad));
  stage.end(bad);
  EXPECT_TRUE(stage.stepper().audit().ok());
  stage.run();
  EXPECT_EQ(stage.answer("waiting"), greedy_alone(waiting, 5));
}

TEST(StepperTest, TheAuditLooksAtThePages) {
  Stage stage;
  stage.add("a", random_tokens(100, 1), 3);
  stage.step();
  CachePools& pools = stage.runner().cache().pools();
  const PagePoolDamage latents{&pools.latents().untyped()}, windows{&pools.windows().untyped()};
  latents.set_owners(0, 2);
  EXPECT_THAT(stage.stepper().audit().message(), HasSubstr("audit: latent page 0 has 1 owners but its count says 2"));
  latents.set_owners(0, 1);
  windows.set_owners(0, 2);
  EXPECT_THAT(stage.stepper().audit().message(), HasSubstr("audit: window page 0 has 1 owners but its count says 2"));
  windows.set_owners(0, 1);
  stage.run();
}

// A swapped sequence computes nothing: no sequence may wait for it.
TEST(StepperTest, TheAuditLooksAtTheExpectedBlocks) {
  Stage stage;  // 64 rows a step
  const auto prompt = random_tokens(300, 1);
  stage.add("a", prompt, 3);
  stage.step();
  PrefixCache& cache = stage.runner().cache().prefix_cache();
  EXPECT_EQ(cache.expected_blocks(), 2U);
  BlockChain chain(stage.runner().cache().root("")), other = chain;
  chain.extend(prompt);
  other.extend(random_tokens(300, 2));
  cache.expect(other, 0, 1);
  EXPECT_THAT(stage.stepper().audit().message(), HasSubstr("the prefix cache expects 3 blocks, and sequences will"));
  cache.forget_expected(other, 0, 1);
  cache.expect(chain, 1, 2);
  EXPECT_THAT(stage.stepper().audit().message(), HasSubstr("1 sequences will compute a block that the prefix cache"));
  cache.forget_expected(chain, 1, 2);
  stage.run();
  EXPECT_EQ(cache.expected_blocks(), 0U);
}

// Two that begin alike, the first of which is swapped out in the middle of what the second would wait for.
TEST(StepperTest, NobodyWaitsForWhatIsSwappedOut) {
  EngineSetup options = small_options();
  options.cache.swap_space = 1 << 20;
  options.testing.force_preempt_every = 3;
  Stage stage(options);
  const auto prompt = random_tokens(900, 1);
  for (const char* name : {"first", "second", "third"}) stage.add(name, prompt, 3);
  stage.run(200);
  EXPECT_GT(stage.stats().preemptions_swap, 0U);
  EXPECT_EQ(stage.runner().cache().prefix_cache().expected_blocks(), 0U);
  for (const char* name : {"first", "second", "third"}) EXPECT_EQ(stage.answer(name), greedy_alone(prompt, 3)) << name;
}

TEST(StepperTest, TheAuditLooksAtTheSwapSpace) {
  EngineSetup options = small_options();
  options.cache.swap_space = 1 << 20;
  Stage stage(options);
  stage.add("a", random_tokens(100, 1), 3);
  stage.step();
  SwapSpace& space = stage.runner().cache().swap_space();
  const SwapHandle stray = space.store(std::vector<std::byte>(100)).value();
  EXPECT_THAT(stage.stepper().audit().message(), HasSubstr("the swap space holds 1 states, and 0 sequences"));
  space.drop(stray);
  stage.run();
}

}  // namespace
}  // namespace sluice::stepper_test
