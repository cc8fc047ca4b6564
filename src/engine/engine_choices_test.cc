// Choices (Request::n): forks of one prompt, each with a seed and an ending of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "engine/engine_testing.h"

namespace sluice::engine_choices_test {
namespace {

using ::testing::HasSubstr;

constexpr SamplingParams kSampled{.temperature = 1, .seed = 11};

SamplingParams of_choice(int choice) {
  SamplingParams sampling = kSampled;
  sampling.seed = choice_seed(kSampled.seed, choice);
  return sampling;
}

// Each choice gives the tokens of a request of its own with the choice's seed.
void expect_as_alone(Answer& answer, const std::vector<TokenId>& prompt, int max_tokens, int n) {
  for (int choice = 0; choice < n; ++choice) {
    EXPECT_EQ(answer.wait(choice).reason, FinishReason::kLength);
    EXPECT_EQ(answer.tokens(choice), alone(prompt, max_tokens, of_choice(choice))) << "choice " << choice;
  }
}

TEST(EngineChoicesTest, SeedsOfChoices) {
  EXPECT_EQ(choice_seed(7, 0), 7U);
  std::set<std::uint64_t> seeds;
  for (int choice = 0; choice < 100; ++choice) {
    for (const std::uint64_t seed : {0ULL, 7ULL, ~0ULL}) seeds.insert(choice_seed(seed, choice));
  }
  EXPECT_EQ(seeds.size(), 300U);
}

TEST(EngineChoicesTest, ForksShareThePrompt) {
  for (const bool caching : {true, false}) {
    for (const int length : {1, 256, 300}) {  // alone, at a boundary, within a block
      EngineSetup options = small_options();
      options.cache.enable_prefix_caching = caching;
      Answer answer(4);
      auto engine = make_engine(options);
      const auto prompt = random_tokens(length, 1);
      ASSERT_TRUE(engine->submit(request(answer, prompt, 140, kSampled, 4)).ok());
      expect_as_alone(answer, prompt, 140, 4);
      const EngineStats stats = engine->stats();
      EXPECT_EQ(stats.prompt_tokens, static_cast<std::uint64_t>(length)) << "the prompt is computed once";
      EXPECT_EQ(stats.generated_tokens, 4U * 140U);
      EXPECT_EQ(stats.finished_requests, 1U);
      EXPECT_EQ(stats.cache_bytes_used, 0);
    }
  }
}

TEST(EngineChoicesTest, ChoicesDifferAndAreReproducible) {
  const auto prompt = random_tokens(100, 3);
  std::vector<std::vector<TokenId>> first;
  for (int run = 0; run < 2; ++run) {
    Answer answer(5);
    auto engine = make_engine();  // for 4 sequences
    ASSERT_TRUE(engine->submit(request(answer, prompt, 20, kSampled, 5)).ok());
    answer.wait();
    for (int choice = 0; choice < 5; ++choice) {
      if (run == 0) {
        EXPECT_EQ(std::count(first.begin(), first.end(), answer.tokens(choice)), 0);
        first.push_back(answer.tokens(choice));
      } else {
        EXPECT_EQ(answer.tokens(choice), first[static_cast<std::size_t>(choice)]);
      }
    }
  }
}

TEST(EngineChoicesTest, WithoutAPlaceAChoiceBeginsByItself) {
  for (const bool caching : {true, false}) {
    EngineSetup options = small_options();
    options.scheduler.max_num_seqs = 2;
    options.cache.enable_prefix_caching = caching;
    Answer answer(5);
    auto engine = make_engine(options);
    const auto prompt = random_tokens(300, 1);
    ASSERT_TRUE(engine->submit(request(answer, prompt, 30, kSampled, 5)).ok());
    expect_as_alone(answer, prompt, 30, 5);
    const EngineStats stats = engine->stats();
    // Choices 2, 3 and 4 came later; from the cache they compute the rest after the second block.
    EXPECT_EQ(stats.prompt_tokens, 300U) << "the prompt of a request counts once";
    EXPECT_EQ(stats.recomputed_tokens, caching ? 3U * 44 : 3U * 300);
    EXPECT_EQ(stats.cache_bytes_used, 0);
  }
}

TEST(EngineChoicesTest, WithoutMemoryAChoiceBeginsByItself) {
  EngineSetup options = small_options();
  options.model.max_model_len = 1024;
  options.cache.kv_cache_memory = 20 << 10;
  options.cache.enable_prefix_caching = false;
  Answer answer(4);
  auto engine = make_engine(options);
  const auto prompt = random_tokens(700, 1);
  ASSERT_TRUE(engine->submit(request(answer, prompt, 200, kSampled, 4)).ok());
  expect_as_alone(answer, prompt, 200, 4);
  EXPECT_EQ(engine->stats().prompt_tokens, 700U);
  EXPECT_GE(engine->stats().recomputed_tokens, 700U) << "the pool was not small enough for this test";
}

TEST(EngineChoicesTest, EndTokensEndTheirChoiceOnly) {
  const auto prompt = random_tokens(50, 2);
  std::vector<std::vector<TokenId>> whole;
  for (int choice = 0; choice < 4; ++choice) whole.push_back(alone(prompt, 30, of_choice(choice)));
  const TokenId stop = whole[1][4];
  Answer answer(4);
  auto engine = make_engine();
  Request r = request(answer, prompt, 30, kSampled, 4);
  r.stop_token_ids = {stop};
  ASSERT_TRUE(engine->submit(std::move(r)).ok());
  for (std::size_t choice = 0; choice < 4; ++choice) {
    const auto end = std::find(whole[choice].begin(), whole[choice].end(), stop);
    const bool stops = end != whole[choice].end();
    EXPECT_EQ(answer.wait(static_cast<int>(choice)).reason, stops ? FinishReason::kStop : FinishReason::kLength);
    EXPECT_EQ(answer.tokens(static_cast<int>(choice)),
              std::vector<TokenId>(whole[choice].begin(), end + static_cast<int>(stops)));
  }
}

TEST(EngineChoicesTest, NoTokensOrOne) {
  Answer none(3), one(3);
  auto engine = make_engine();
  ASSERT_TRUE(engine->submit(request(none, {1, 2}, 0, kSampled, 3)).ok());
  ASSERT_TRUE(engine->submit(request(one, {1, 2}, 1, kSampled, 3)).ok());
  for (int choice = 0; choice < 3; ++choice) {
    EXPECT_EQ(none.wait(choice).reason, FinishReason::kLength);
    EXPECT_EQ(none.wait(choice).choice, choice);
    EXPECT_TRUE(none.tokens(choice).empty());
  }
  expect_as_alone(one, {1, 2}, 1, 3);
}

TEST(EngineChoicesTest, LogprobsAreOfTheChoice) {
  Answer answer(3);
  auto engine = make_engine();
  SamplingParams sampling = kSampled;
  sampling.top_logprobs = 2;
  ASSERT_TRUE(engine->submit(request(answer, {1, 2}, 1, sampling, 3)).ok());
  for (int choice = 0; choice < 3; ++choice) {
    const Output last = answer.wait(choice);
    ASSERT_EQ(last.top.size(), 2U);
    EXPECT_GE(last.top[0].logprob, last.logprob);
    EXPECT_EQ(last.top[0].token, answer.wait(0).top[0].token) << "they choose from the same row";
  }
}

TEST(EngineChoicesTest, ABadRowEndsItsChoiceOnly) {
  const auto prompt = random_tokens(40, 2);
  constexpr int kChoices = 4, kTokens = 8;
  std::vector<std::vector<TokenId>> whole;
  for (int choice = 0; choice < kChoices; ++choice) whole.push_back(alone(prompt, kTokens, of_choice(choice)));
  const TokenId bad = whole[2][3];  // the row of this token, once generated, is not a number
  FakeModel::Settings settings;
  settings.on_logits = [bad](TokenId token, Position p, float* logits) {
    if (token == bad && p >= 40) logits[0] = std::nanf("");
  };
  Answer answer(kChoices);
  auto engine = make_engine(small_options(), settings);
  ASSERT_TRUE(engine->submit(request(answer, prompt, kTokens, kSampled, kChoices)).ok());
  int failed = 0;
  for (int choice = 0; choice < kChoices; ++choice) {
    auto expected = whole[static_cast<std::size_t>(choice)];
    const auto at = std::find(expected.begin(), expected.end() - 1, bad);
    const bool fails = at != expected.end() - 1;
    if (fails) expected.erase(at + 1, expected.end());
    failed += fails;
    EXPECT_EQ(answer.wait(choice).reason, fails ? FinishReason::kError : FinishReason::kLength) << choice;
    EXPECT_EQ(answer.tokens(choice), expected) << choice;
  }
  EXPECT_GT(failed, 0);
  EXPECT_LT(failed, kChoices) << "the test needs a choice that does not sample " << bad;
  EXPECT_EQ(engine->stats().cache_bytes_used, 0);
}

TEST(EngineChoicesTest, ABadRowAtTheEndOfThePromptEndsAll) {
  FakeModel::Settings settings;
  settings.on_logits = [](TokenId, Position p, float* logits) {
    if (p == 39) logits[0] = std::nanf("");
  };
  Answer answer(6);  // more than there are places
  auto engine = make_engine(small_options(), settings);
  ASSERT_TRUE(engine->submit(request(answer, random_tokens(40, 2), 5, kSampled, 6)).ok());
  for (int choice = 0; choice < 6; ++choice) {
    EXPECT_EQ(answer.wait(choice).reason, FinishReason::kError);
    EXPECT_THAT(answer.wait(choice).status.message(), HasSubstr("not numbers"));
  }
  EXPECT_EQ(engine->stats().finished_requests, 1U);
}

TEST(EngineChoicesTest, PreemptionChangesNothing) {
  for (int every = 1; every <= 7; ++every) {
    EngineSetup options = small_options();
    options.testing.force_preempt_every = every;
    options.cache.swap_space = 1 << 20;
    std::vector<Answer> answers(3);
    Answer choices(3);
    auto engine = make_engine(options);
    const auto prompt = random_tokens(200, 4);
    ASSERT_TRUE(engine->submit(request(choices, prompt, 60, kSampled, 3)).ok());
    for (auto& answer : answers) ASSERT_TRUE(engine->submit(request(answer, random_tokens(90, 5), 40)).ok());
    expect_as_alone(choices, prompt, 60, 3);
    for (auto& answer : answers) {
      answer.wait();
      EXPECT_EQ(answer.tokens(), alone(random_tokens(90, 5), 40, {.temperature = 0}));
    }
    EXPECT_GT(engine->stats().preemptions_swap, 0U);
    EXPECT_EQ(engine->stats().swap_bytes_used, 0);
  }
}

TEST(EngineChoicesTest, HowManyIsChecked) {
  Answer answer;
  auto engine = make_engine();
  for (const int n : {0, -1, 1025, std::numeric_limits<int>::max()}) {
    const auto refused = engine->submit(request(answer, {1}, 1, kSampled, n));
    ASSERT_FALSE(refused.ok());
    EXPECT_THAT(refused.status().message(), HasSubstr("n: expected 1 to 1024"));
  }
}

}  // namespace
}  // namespace sluice::engine_choices_test
