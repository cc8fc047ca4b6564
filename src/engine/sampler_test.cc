#include "engine/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>

#include "base/test_seed_testing.h"
#include "engine/sampler_testing.h"

namespace sluice::sampler_test {
namespace {

using ::testing::HasSubstr;

constexpr float kInf = std::numeric_limits<float>::infinity();

Sampled sample(const std::vector<float>& logits, const SamplingParams& params, Position position = 0) {
  Sampler sampler;
  Sampled sampled;
  const Status status = sampler.sample(logits, params, position, &sampled);
  EXPECT_TRUE(status.ok()) << status.message();
  return sampled;
}

std::vector<float> random_logits(std::mt19937& random, std::size_t vocab, float spread) {
  std::normal_distribution<float> normal(0.0F, spread);
  std::vector<float> logits(vocab);
  for (float& l : logits) l = normal(random);
  // Ties and impossible tokens.
  for (std::size_t i = 0; i < vocab / 8; ++i) logits[random() % vocab] = logits[random() % vocab];
  for (std::size_t i = 0; i < vocab / 16; ++i) logits[random() % vocab] = -kInf;
  return logits;
}

TEST(SamplerTest, GreedyTakesTheLowestIdOfTheHighestLogit) {
  EXPECT_EQ(sample({1, 3, 2, 3}, {.temperature = 0}).token, 1);
  EXPECT_EQ(sample({-kInf, -kInf, -5}, {.temperature = 0}).token, 2);
  EXPECT_EQ(sample({-1}, {.temperature = 0}).token, 0);
}

TEST(SamplerTest, FollowsItsDefinition) {
  const auto seed = test_seed();
  SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  const auto pick = [&](std::initializer_list<float> values) { return *(values.begin() + random() % values.size()); };
  for (int i = 0; i < 3000; ++i) {
    const std::size_t vocab = i % 10 == 0 ? 5000 : 1 + random() % 200;
    std::vector<float> logits = random_logits(random, vocab, pick({0.1F, 1, 4, 20}));
    logits[random() % vocab] = 1;
    const SamplingParams params{.temperature = pick({0, 0.01F, 0.6F, 1, 3, 100}),
                                .top_p = pick({1, 0.999F, 0.9F, 0.5F, 1e-6F}),
                                .top_k = static_cast<int>(pick({-1, 0, 1, 3, 50, 300})),
                                .min_p = pick({0, 0.01F, 0.3F, 1}),
                                .seed = random()};
    const auto position = static_cast<Position>(random() % 10000);
    ASSERT_EQ(sample(logits, params, position).token, sampled_by_definition(logits, params, position))
        << "case " << i << " temperature " << params.temperature << " top_p " << params.top_p << " top_k "
        << params.top_k << " min_p " << params.min_p;
  }
}

TEST(SamplerTest, FiltersKeepWhatTheySay) {
  // Weights 8, 4, 2, 1, 1 (of 16), by ids 4, 0, 3, 1, 2.
  const float ln2 = std::log(2.0F);
  const std::vector<float> logits = {2 * ln2, 0, 0, ln2, 3 * ln2};
  const auto seen = [&](SamplingParams params) {
    std::map<TokenId, int> counts;
    for (Position p = 0; p < 400; ++p) ++counts[sample(logits, params, p).token];
    std::vector<TokenId> ids;
    for (const auto& [id, count] : counts) ids.push_back(id);
    return ids;
  };
  using Ids = std::vector<TokenId>;
  EXPECT_EQ(seen({}), (Ids{0, 1, 2, 3, 4}));
  EXPECT_EQ(seen({.top_k = 1}), (Ids{4}));
  EXPECT_EQ(seen({.top_k = 4}), (Ids{0, 1, 3, 4}));  // ids 1 and 2 tie: the lower one stays
  EXPECT_EQ(seen({.top_p = 0.49F}), (Ids{4}));
  EXPECT_EQ(seen({.top_p = 0.51F}), (Ids{0, 4}));
  EXPECT_EQ(seen({.top_p = 0.6F, .top_k = 2}), (Ids{4}));  // 8 of 12 is enough after top_k
  EXPECT_EQ(seen({.min_p = 0.2F}), (Ids{0, 3, 4}));
  EXPECT_EQ(seen({.min_p = 1}), (Ids{4}));
  EXPECT_EQ(seen({.temperature = 0.001F}), (Ids{4}));
}

TEST(SamplerTest, FrequenciesAreTheProbabilities) {
  const std::vector<float> logits = {0, 1, 2, -1, 0.5F};
  for (const float temperature : {0.7F, 1.0F, 2.0F}) {
    std::vector<double> expected;
    for (const float l : logits)
      expected.push_back(std::exp(static_cast<double>(l) / static_cast<double>(temperature)));
    const double all = std::accumulate(expected.begin(), expected.end(), 0.0);
    constexpr int kDraws = 50000;
    std::vector<int> counts(logits.size());
    for (Position p = 0; p < kDraws; ++p) {
      ++counts[static_cast<std::size_t>(sample(logits, {.temperature = temperature, .seed = 7}, p).token)];
    }
    double chi_square = 0;
    for (std::size_t i = 0; i < logits.size(); ++i) {
      const double e = kDraws * expected[i] / all;
      chi_square += (counts[i] - e) * (counts[i] - e) / e;
    }
    EXPECT_LT(chi_square, 23.5) << temperature;  // 4 degrees of freedom, p = 1e-4; the seed is fixed
  }
}

TEST(SamplerTest, LogprobsAreOfTheRawLogits) {
  const std::vector<float> logits = {1, 3, -kInf, 3, 2};
  const Sampled s = sample(logits, {.temperature = 0.5F, .top_k = 1, .top_logprobs = 4});
  const double log_sum = std::log(std::exp(1.0) + 2 * std::exp(3.0) + std::exp(2.0));
  EXPECT_EQ(s.token, 1);
  EXPECT_FLOAT_EQ(s.logprob, static_cast<float>(3 - log_sum));
  ASSERT_EQ(s.top.size(), 4U);
  EXPECT_EQ(s.top[0].token, 1);
  EXPECT_EQ(s.top[1].token, 3);
  EXPECT_EQ(s.top[2].token, 4);
  EXPECT_FLOAT_EQ(s.top[3].logprob, static_cast<float>(1 - log_sum));
  EXPECT_TRUE(sample(logits, {.top_logprobs = 0}).top.empty());
  EXPECT_EQ(sample(logits, {.top_logprobs = 20}).top.size(), 5U);
  EXPECT_EQ(sample(logits, {.top_logprobs = 20}).top[4].logprob, -kInf);
}

TEST(SamplerTest, ASharedSamplerKeepsNothing) {
  Sampler sampler;
  Sampled first, second;
  const std::vector<float> a = {1, 5, 2}, b = {4, 1, 2, 7};
  ASSERT_TRUE(sampler.sample(a, {.temperature = 0, .top_logprobs = 2}, 0, &first).ok());
  ASSERT_TRUE(sampler.sample(b, {.temperature = 0, .top_logprobs = 2}, 0, &second).ok());
  EXPECT_EQ(second.top[0].token, 3);
  EXPECT_EQ(second.top[1].token, 0);
}

TEST(SamplerTest, WhatIsNotADistributionIsAnError) {
  Sampler sampler;
  Sampled sampled;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const auto& logits : std::vector<std::vector<float>>{{1, nan, 2}, {nan}, {1, kInf}, {-kInf, -kInf}}) {
    const Status status = sampler.sample(logits, {}, 10, &sampled);
    EXPECT_EQ(status.code(), StatusCode::kInternal);
    EXPECT_THAT(status.message(), HasSubstr("the logits of position 9"));
  }
}

TEST(SamplerTest, ParametersAreChecked) {
  EXPECT_TRUE(validate(SamplingParams{}).ok());
  EXPECT_TRUE(validate({.temperature = 0, .top_p = 0.1F, .top_k = -1, .min_p = 1, .seed = 0, .top_logprobs = 20}).ok());
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(validate({.temperature = -1}).message(), HasSubstr("temperature: expected 0 to 100, found -1"));
  EXPECT_FALSE(validate({.temperature = 101}).ok());
  EXPECT_FALSE(validate({.temperature = nan}).ok());
  EXPECT_FALSE(validate({.temperature = kInf}).ok());
  EXPECT_THAT(validate({.top_p = 0}).message(), HasSubstr("top_p"));
  EXPECT_FALSE(validate({.top_p = 1.5F}).ok());
  EXPECT_FALSE(validate({.top_p = nan}).ok());
  EXPECT_THAT(validate({.top_k = -2}).message(), HasSubstr("top_k"));
  EXPECT_THAT(validate({.min_p = 1.1F}).message(), HasSubstr("min_p"));
  EXPECT_THAT(validate({.top_logprobs = 21}).message(), HasSubstr("top_logprobs: expected -1 (off) to 20, found 21"));
}

}  // namespace
}  // namespace sluice::sampler_test
