#include "bench/prediction.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/test_seed_testing.h"

namespace sluice::prediction_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Logits of probabilities in twelfths, raised by `shift`, which changes no probability.
std::vector<float> logits_of(const std::vector<int>& twelfths, float shift = 0) {
  std::vector<float> logits;
  for (const int part : twelfths) logits.push_back(std::log(static_cast<float>(part)) + shift);
  return logits;
}

TEST(PredictionTest, NegativeLogLikelihood) {
  for (const float shift : {0.0F, 200.0F, -200.0F}) {
    const std::vector<float> logits = logits_of({3, 9, 0}, shift);
    const Prediction prediction(logits);
    EXPECT_NEAR(prediction.negative_log_likelihood(0), std::log(4), 1e-4);
    EXPECT_NEAR(prediction.negative_log_likelihood(1), std::log(4.0 / 3), 1e-4);
    EXPECT_EQ(prediction.negative_log_likelihood(2), std::numeric_limits<double>::infinity());
  }
}

TEST(PredictionTest, TheBestTokenIsTheFirstOfEquals) {
  const std::vector<float> logits = {-1, 2, -kInfinity, 2, 1};
  EXPECT_EQ(Prediction(logits).best(), 1);
}

TEST(PredictionTest, DivergenceByHand) {
  const std::vector<float> p = logits_of({6, 6}), q = logits_of({3, 9}, 100);
  EXPECT_NEAR(Prediction(p).divergence_from(Prediction(q)), std::log(4.0 / 3) / 2, 1e-5);
  EXPECT_NEAR(Prediction(q).divergence_from(Prediction(p)), 0.75 * std::log(3) - std::log(2), 1e-5);
  EXPECT_EQ(Prediction(p).divergence_from(Prediction(p)), 0);
}

TEST(PredictionTest, DivergenceWhereATokenIsImpossible) {
  const std::vector<float> some = logits_of({6, 0, 6}), every = logits_of({4, 4, 4});
  EXPECT_NEAR(Prediction(some).divergence_from(Prediction(every)), std::log(1.5), 1e-6);
  EXPECT_EQ(Prediction(every).divergence_from(Prediction(some)), std::numeric_limits<double>::infinity());
  EXPECT_EQ(Prediction(some).divergence_from(Prediction(some)), 0);
}

TEST(PredictionTest, WhatIsNoNumberIsNotHidden) {
  const std::vector<float> good = {1, 2, 3};
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), kInfinity}) {
    const std::vector<float> spoilt = {1, bad, 3};
    EXPECT_TRUE(std::isnan(Prediction(spoilt).negative_log_likelihood(0)));
    EXPECT_TRUE(std::isnan(Prediction(spoilt).divergence_from(Prediction(good))));
    EXPECT_TRUE(std::isnan(Prediction(good).divergence_from(Prediction(spoilt))));
  }
}

// Against the definition, in long double and without logarithms of sums.
TEST(PredictionTest, DivergenceOfRandomRows) {
  const std::uint32_t seed = test_seed();
  SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 5);
  for (int round = 0; round < 50; ++round) {
    const std::size_t vocab = 1 + random() % 1000;
    std::vector<float> p(vocab), q(vocab);
    for (std::size_t i = 0; i < vocab; ++i) {
      p[i] = normal(random);
      q[i] = normal(random);
    }
    std::vector<float> near = p;  // equal except the last bit of one logit
    float& changed = near[random() % vocab];
    changed = std::nextafter(changed, kInfinity);
    long double p_sum = 0, q_sum = 0, expected = 0;
    for (std::size_t i = 0; i < vocab; ++i) {
      p_sum += std::exp(static_cast<long double>(p[i]));
      q_sum += std::exp(static_cast<long double>(q[i]));
    }
    for (std::size_t i = 0; i < vocab; ++i) {
      const long double one = std::exp(static_cast<long double>(p[i])) / p_sum;
      const long double two = std::exp(static_cast<long double>(q[i])) / q_sum;
      expected += one * std::log(one / two);
    }
    EXPECT_NEAR(Prediction(p).divergence_from(Prediction(q)), static_cast<double>(expected), 1e-9);
    EXPECT_EQ(Prediction(p).divergence_from(Prediction(p)), 0);
    const double small = Prediction(p).divergence_from(Prediction(near));
    EXPECT_GE(small, 0);  // although rounding is as large
    EXPECT_LT(small, 1e-9);
  }
}

}  // namespace
}  // namespace sluice::prediction_test
