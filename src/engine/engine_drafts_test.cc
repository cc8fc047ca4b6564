// Speculation as requests see it: the same tokens in fewer steps, whatever was guessed, and an end where it belongs.
// Guesses come from predictions that the test knows to be right up to some token.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/engine_testing.h"

namespace sluice::engine_drafts_test {
namespace {

constexpr SamplingParams kGreedy{.temperature = 0};

EngineSetup with_drafts(int most, bool adaptive = false) {
  EngineSetup options = small_options();
  options.scheduler.async_scheduling = AsyncScheduling::kOff;  // drafts are made from tokens that are known
  options.speculation = {
      .speculative = Speculative::kNgram, .num_speculative_tokens = most, .speculative_adaptive = adaptive};
  return options;
}

std::vector<TokenId> first(const std::vector<TokenId>& tokens, std::size_t n) {
  return {tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(n)};
}

// The engine has counted all tokens before it calls back with the last ones.
struct Served {
  std::vector<TokenId> tokens;
  Output last;
  EngineStats stats;
};

Served serve(Engine& engine, const std::vector<TokenId>& prompt, int max_tokens,
             const std::vector<TokenId>& prediction = {}, const std::vector<TokenId>& ends = {},
             SamplingParams sampling = kGreedy) {
  Answer answer;
  Request r = request(answer, prompt, max_tokens, sampling);
  r.prediction = prediction;
  r.stop_token_ids = ends;
  EXPECT_TRUE(engine.submit(std::move(r)).ok());
  Served served{.tokens = {}, .last = answer.wait(), .stats = engine.stats()};
  served.tokens = answer.tokens();
  return served;
}

TEST(EngineDraftsTest, ARightPredictionTakesFewSteps) {
  const auto prompt = random_tokens(140, 3);
  const auto expected = alone(prompt, 40, kGreedy);
  for (const int most : {1, 3, 8}) {
    auto engine = make_engine(with_drafts(most));
    const Served served = serve(*engine, prompt, 40, expected);
    EXPECT_EQ(served.tokens, expected);
    EXPECT_EQ(served.last.reason, FinishReason::kLength);
    // The prompt takes three steps, the last of which gives a token; each step then 1 + most.
    EXPECT_LE(served.stats.steps, static_cast<std::uint64_t>(3 + (39 + most) / (most + 1)));
    EXPECT_EQ(served.stats.drafts.accepted_tokens, served.stats.drafts.drafted_tokens);
    EXPECT_EQ(served.stats.generated_tokens, 40U);
  }
}

// A device whose steps begin before the tokens of those before are known waits for them where there is something to
// draft, and goes on as without drafts where there is not.
TEST(EngineDraftsTest, ADeviceWaitsWhereThereIsSomethingToDraft) {
  EngineSetup options = with_drafts(3, true);
  options.machine.device = "emulated";
  options.scheduler.async_scheduling = AsyncScheduling::kAuto;
  const auto prompt = random_tokens(140, 3);
  const auto expected = alone(prompt, 40, kGreedy);
  auto engine = make_engine(options);
  const Served right = serve(*engine, prompt, 40, expected);
  EXPECT_EQ(right.tokens, expected);
  EXPECT_GE(right.stats.drafts.accepted_tokens, 20U);
  EXPECT_LE(right.stats.steps, 3U + 39 - 20);
  // The steps begin one after another without waits again once no draft is right.
  std::vector<TokenId> wrong = expected;
  for (TokenId& id : wrong) id = (id + 1) % 64;
  const Served other = serve(*engine, prompt, 40, wrong);
  EXPECT_EQ(other.tokens, expected);
  options.scheduler.async_scheduling = AsyncScheduling::kOn, options.speculation.speculative = Speculative::kAuto;
  const Served never = serve(*make_engine(options), prompt, 40, expected);
  EXPECT_EQ(never.tokens, expected);
  EXPECT_EQ(never.stats.drafts.drafted_tokens, 0U) << "--async-scheduling on waits for none";
}

TEST(EngineDraftsTest, AWrongPredictionChangesNothing) {
  const auto prompt = random_tokens(100, 4);
  const auto expected = alone(prompt, 60, kGreedy);
  for (std::size_t wrong = 0; wrong < 60; wrong += 7) {
    std::vector<TokenId> prediction = expected;
    prediction[wrong] = (prediction[wrong] + 1) % 64;
    auto engine = make_engine(with_drafts(5));
    const Served served = serve(*engine, prompt, 60, prediction);
    EXPECT_EQ(served.tokens, expected) << "wrong at " << wrong;
    EXPECT_GT(served.stats.drafts.accepted_tokens, 20U);
  }
}

TEST(EngineDraftsTest, SampledAnswersAreTheSame) {
  const auto prompt = random_tokens(50, 5);
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    const SamplingParams sampling{.temperature = 1.5F, .top_k = 30, .seed = seed};
    const auto expected = alone(prompt, 50, sampling);
    auto engine = make_engine(with_drafts(4));
    const Served served = serve(*engine, prompt, 50, expected, {}, sampling);
    EXPECT_EQ(served.tokens, expected);
    EXPECT_GT(served.stats.drafts.accepted_tokens, 20U);
  }
}

// Wherever in a run of right drafts the end token stands, it is the last that is heard of.
TEST(EngineDraftsTest, AnEndTokenWithinARunEndsTheAnswer) {
  const auto prompt = random_tokens(60, 6);
  const auto expected = alone(prompt, 30, kGreedy);
  for (std::size_t at = 1; at < 20; ++at) {
    const TokenId end = expected[at];
    const auto first_at = static_cast<std::size_t>(std::ranges::find(expected, end) - expected.begin());
    auto engine = make_engine(with_drafts(8));
    const Served served = serve(*engine, prompt, 30, expected, {end});
    EXPECT_EQ(served.tokens, first(expected, first_at + 1));
    EXPECT_EQ(served.last.reason, FinishReason::kStop);
    EXPECT_EQ(served.stats.generated_tokens, first_at + 1);
    EXPECT_EQ(served.stats.running, 0);
  }
}

// The blocks that an answer leaves in the cache do not depend on how it was computed.
TEST(EngineDraftsTest, TheNextTurnFindsTheSameInTheCache) {
  const auto prompt = random_tokens(100, 7);
  const auto expected = alone(prompt, 60, kGreedy);
  for (int length = 20; length < 45; ++length) {  // the block ends after 28 tokens of the answer
    std::vector<int> cached;
    for (const bool drafts : {false, true}) {
      auto engine = make_engine(drafts ? with_drafts(8) : small_options());
      const Served first_turn = serve(*engine, prompt, length, expected);
      const auto next = joined(joined(prompt, first_turn.tokens), random_tokens(30, 9));
      cached.push_back(serve(*engine, next, 3).last.cached_tokens);
    }
    EXPECT_EQ(cached[0], length > 28 ? 128 : 0);
    EXPECT_EQ(cached[1], cached[0]) << "an answer of " << length;
  }
}

TEST(EngineDraftsTest, EveryChoiceIsAsWithoutDrafts) {
  const auto prompt = random_tokens(130, 8);
  const SamplingParams sampling{.temperature = 2.0F, .seed = 11};
  std::vector<std::vector<TokenId>> expected;
  for (int choice = 0; choice < 3; ++choice) {
    SamplingParams own = sampling;
    own.seed = choice_seed(sampling.seed, choice);
    expected.push_back(alone(prompt, 40, own));
  }
  auto engine = make_engine(with_drafts(3));
  Answer answer(3);
  Request r = request(answer, prompt, 40, sampling, 3);
  r.prediction = expected[1];
  ASSERT_TRUE(engine->submit(std::move(r)).ok());
  answer.wait();
  for (int choice = 0; choice < 3; ++choice) {
    EXPECT_EQ(answer.tokens(choice), expected[static_cast<std::size_t>(choice)]) << choice;
  }
  EXPECT_GT(engine->stats().drafts.accepted_tokens, 10U);
}

// Many at once, in memory that is far too small, preempted every few steps.
TEST(EngineDraftsTest, TogetherAndPreemptedTheyAreAsAlone) {
  EngineSetup options = with_drafts(6, true);
  options.testing.force_preempt_every = 2;
  options.cache.swap_space = 1 << 20;
  options.cache.kv_cache_memory = 1 << 20;
  GatedEngine engine(options);  // all are there before the first step ends: the same plans in every run
  std::vector<std::vector<TokenId>> prompts, expected;
  std::vector<std::unique_ptr<Answer>> answers;
  for (unsigned i = 0; i < 12; ++i) {
    prompts.push_back(random_tokens(30 + 17 * static_cast<int>(i), 20 + i));
    expected.push_back(alone(prompts.back(), 50, kGreedy));
    answers.push_back(std::make_unique<Answer>());
    Request r = request(*answers.back(), prompts.back(), 50, kGreedy);
    r.prediction = expected.back();
    r.prediction[i] = (r.prediction[i] + 1) % 64;
    ASSERT_TRUE(engine->submit(std::move(r)).ok());
    if (i == 0) engine.gate().wait_for_step();
  }
  engine.gate().open();
  for (std::size_t i = 0; i < answers.size(); ++i) {
    answers[i]->wait();
    EXPECT_EQ(answers[i]->tokens(), expected[i]) << i;
  }
  const EngineStats stats = engine->stats();
  EXPECT_GT(stats.preemptions_recompute + stats.preemptions_swap, 5U);
  EXPECT_GT(stats.drafts.accepted_tokens, 50U);
}

// That the newest token is the first of the prediction says little: it counts where the answer begins.
TEST(EngineDraftsTest, APredictionBeginsWithTheAnswer) {
  FakeModel::Settings settings;
  settings.on_logits = [](TokenId token, Position, float* logits) { logits[(token + 1) % 64] = 1000; };
  for (const bool at_start : {true, false}) {
    auto engine = make_engine(with_drafts(3), settings);
    const Served served = serve(*engine, {1, 2}, 30, {at_start ? 3 : 20, 40, 40, 40, 40});
    EXPECT_EQ(served.stats.drafts.drafted_tokens, at_start ? 3U : 0U);
    EXPECT_EQ(served.stats.drafts.accepted_tokens, 0U);
  }
}

// A prediction that ends where the answer goes on competes with the model's drafts, which are used and right.
TEST(EngineDraftsTest, TheModelsDraftsAreNotThePredictions) {
  EngineSetup options = with_drafts(4);
  options.speculation.speculative = Speculative::kAuto;
  FakeModel::Settings settings;
  settings.drafts = true;
  settings.on_logits = [](TokenId, Position, float* logits) { logits[0] = 1000; };
  auto engine = make_engine(options, settings);
  Answer answer;
  Request r = request(answer, {1, 2, 3}, 200, kGreedy);
  r.prediction.assign(40, 0);
  r.prediction.insert(r.prediction.end(), 10, 1);
  ASSERT_TRUE(engine->submit(std::move(r)).ok());
  answer.wait();
  EXPECT_GT(engine->stats().drafts.accepted_tokens, 100U);
  const std::vector<Output> outputs = answer.outputs();
  EXPECT_EQ(std::ranges::count(outputs, true, &Output::predicted), 4) << "those behind the first token alone";
}

// Drawn with the answer's own parameters.
TEST(EngineDraftsTest, TheModelsDraftsOfSampledAnswersChangeNothing) {
  const auto prompt = random_tokens(10, 9);
  const SamplingParams sampling{.temperature = 1.5F, .top_k = 30, .seed = 4};
  EngineSetup options = with_drafts(4);
  options.speculation.speculative = Speculative::kMtp;
  FakeModel::Settings settings;
  settings.drafts = true;
  auto engine = make_engine(options, settings);
  const Served served = serve(*engine, prompt, 60, {}, {}, sampling);
  EXPECT_EQ(served.tokens, alone(prompt, 60, sampling));
  EXPECT_GT(served.stats.drafts.drafted_tokens, 100U);
}

// A wrong state of a drafting layer changes no answer: this warning is all that a user would see.
TEST(EngineDraftsTest, AModelThatIsHardlyEverRightIsToldOnce) {
  const auto prompt = random_tokens(10, 8);
  EngineSetup options = with_drafts(4);
  options.speculation.speculative = Speculative::kMtp;
  const auto warnings = [&](bool right) {
    FakeModel::Settings settings;
    settings.drafts = true;
    if (right) settings.on_logits = [](TokenId, Position, float* logits) { logits[0] = 1000; };
    ::testing::internal::CaptureStderr();
    EngineStats stats;
    {
      auto engine = make_engine(options, settings);
      for (int i = 0; i < 3; ++i) stats = serve(*engine, prompt, right ? 2000 : 400).stats;
    }
    const std::string told = ::testing::internal::GetCapturedStderr();
    EXPECT_GT(stats.drafts.drafted_tokens, 4000U);
    EXPECT_EQ(stats.drafts.accepted_tokens > stats.drafts.drafted_tokens / 10, right);
    int count = 0;
    for (std::size_t at = 0; (at = told.find("that the model drafted", at)) != std::string::npos; ++at) ++count;
    return count;
  };
  EXPECT_EQ(warnings(false), 1);
  EXPECT_EQ(warnings(true), 0);
}

// The layer always drafts 0. Two of five steps begin with a 0 and three do not, so 2 of 20 drafts are right.
TEST(EngineDraftsTest, AModelOfWhichATenthIsRightIsNotWarnedOf) {
  EngineSetup options = with_drafts(4);
  options.speculation.speculative = Speculative::kMtp;
  options.scheduler.async_scheduling = AsyncScheduling::kOff;
  FakeModel::Settings settings;
  settings.drafts = true;
  settings.on_logits = [](TokenId, Position at, float* logits) { logits[at % 7 == 2 || at % 7 == 4 ? 0 : 1] = 1000; };
  ::testing::internal::CaptureStderr();
  EngineStats stats;
  {
    auto engine = make_engine(options, settings);
    stats = serve(*engine, random_tokens(8, 8), 360).stats;
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_GE(stats.drafts.drafted_tokens, 1000U);
  EXPECT_NEAR(static_cast<double>(stats.drafts.accepted_tokens), static_cast<double>(stats.drafts.drafted_tokens) / 10,
              3);
}

TEST(EngineDraftsTest, APredictionOfUnknownTokensIsRefused) {
  auto engine = make_engine(with_drafts(2));
  Answer answer;
  Request r = request(answer, {1, 2, 3}, 5);
  r.prediction = {5, 64};
  EXPECT_EQ(engine->submit(std::move(r)).status().message(),
            "prediction: expected token ids in [0, 64), found 64 at index 1");
}

}  // namespace
}  // namespace sluice::engine_drafts_test
