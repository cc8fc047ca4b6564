#include "engine/step/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "base/test_seed_testing.h"
#include "engine/step/sampler_testing.h"

namespace sluice::sampler_test {
namespace {

using ::testing::HasSubstr;

constexpr float kInf = std::numeric_limits<float>::infinity();

Status try_sample(const std::vector<float>& logits, const SamplingParams& params, Position position, Sampled* out) {
  ThreadPool pool(1);
  return sample_one(Exec{.pool = &pool}, logits, params, position, out);
}

Sampled draw(const std::vector<float>& logits, const SamplingParams& params, Position position = 0) {
  Sampled sampled;
  const Status status = try_sample(logits, params, position, &sampled);
  EXPECT_TRUE(status.ok()) << status.message();
  return sampled;
}

TEST(SamplerTest, GreedyTakesTheLowestIdOfTheHighestLogit) {
  EXPECT_EQ(draw({1, 3, 2, 3}, {.temperature = 0}).token, 1);
  EXPECT_EQ(draw({-kInf, -kInf, -5}, {.temperature = 0}).token, 2);
  EXPECT_EQ(draw({-1}, {.temperature = 0}).token, 0);
}

// The parameters arrive at the op, those of each row with its own logits and position.
TEST(SamplerTest, FollowsTheDefinitionInEveryRow) {
  const auto seed = test_seed();
  SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0F, 2.0F);
  const auto pick = [&](std::initializer_list<float> values) { return *(values.begin() + random() % values.size()); };
  constexpr std::size_t kRows = 400, kVocab = 100;
  std::vector<float> logits(kRows * kVocab);
  for (float& l : logits) l = normal(random);
  TokenDraws draws;
  ASSERT_TRUE(draws.reserve(cpu_device(), kRows, 32).ok());
  for (int round = 0; round < 2; ++round) {  // the second finds nothing of the first
    std::vector<TokenId> expected;
    std::vector<SampleRow> rows;
    for (std::size_t row = round == 0 ? 0 : 7; row < kRows; ++row) {
      const SamplingParams params{.temperature = pick({0, 0.6F, 1, 3}),
                                  .top_p = pick({1, 0.9F, 0.5F}),
                                  .top_k = static_cast<int>(pick({-1, 0, 3, 50})),
                                  .min_p = pick({0, 0.01F, 0.3F}),
                                  .seed = std::uint64_t{random()} << 20};
      const auto position = static_cast<Position>(random() % 10000);
      const auto begin = logits.begin() + static_cast<std::ptrdiff_t>(row * kVocab);
      expected.push_back(sampled_by_definition({begin, begin + kVocab}, params, position));
      rows.push_back(sample_row(params, row, position, static_cast<std::int32_t>(kRows - 1 - row)));
    }
    ThreadPool pool(2);
    draws.send(Exec{.pool = &pool}, logits.data(), kVocab, rows);
    const std::span<const SampledRow> taken = draws.take();
    ASSERT_EQ(taken.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      Sampled sampled;
      ASSERT_TRUE(read_sample(taken[i], rows[i].position, &sampled).ok());
      ASSERT_EQ(sampled.token, expected[i]) << "row " << i;
      ASSERT_EQ(draws.newest()[rows[i].slot], expected[i]) << "row " << i;
    }
  }
}

TEST(SamplerTest, FiltersKeepWhatTheySay) {
  // Weights 8, 4, 2, 1, 1 (of 16), by ids 4, 0, 3, 1, 2.
  const float ln2 = std::log(2.0F);
  const std::vector<float> logits = {2 * ln2, 0, 0, ln2, 3 * ln2};
  const auto seen = [&](SamplingParams params) {
    std::map<TokenId, int> counts;
    for (Position p = 0; p < 400; ++p) ++counts[draw(logits, params, p).token];
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

TEST(SamplerTest, LogprobsAreOfTheRawLogits) {
  const std::vector<float> logits = {1, 3, -kInf, 3, 2};
  const Sampled s = draw(logits, {.temperature = 0.5F, .top_k = 1, .top_logprobs = 4});
  const double log_sum = std::log(std::exp(1.0) + 2 * std::exp(3.0) + std::exp(2.0));
  EXPECT_EQ(s.token, 1);
  EXPECT_FLOAT_EQ(s.logprob, static_cast<float>(3 - log_sum));
  ASSERT_EQ(s.top.size(), 4U);
  EXPECT_EQ(s.top[0].token, 1);
  EXPECT_EQ(s.top[1].token, 3);
  EXPECT_EQ(s.top[2].token, 4);
  EXPECT_FLOAT_EQ(s.top[3].logprob, static_cast<float>(1 - log_sum));
  EXPECT_TRUE(draw(logits, {.top_logprobs = 0}).top.empty());
  EXPECT_EQ(draw(logits, {.top_logprobs = 20}).top.size(), 5U);
  EXPECT_EQ(draw(logits, {.top_logprobs = 20}).top[4].logprob, -kInf);
}

TEST(SamplerTest, WhatIsNotADistributionIsAnError) {
  Sampled sampled;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const auto& logits : std::vector<std::vector<float>>{{1, nan, 2}, {nan}, {1, kInf}, {-kInf, -kInf}}) {
    const Status status = try_sample(logits, {}, 10, &sampled);
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
