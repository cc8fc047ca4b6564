#include "sim/percentiles.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/test_seed_testing.h"

namespace sluice::percentiles_test {
namespace {

TEST(PercentilesTest, AreValuesOfTheirRank) {
  std::vector<double> values;
  for (int i = 200; i >= 1; --i) values.push_back(i);
  const Percentiles p = percentiles_of(values);
  EXPECT_EQ(p.count, 200U);
  EXPECT_DOUBLE_EQ(p.mean, 100.5);
  EXPECT_EQ(p.p50, 100);
  EXPECT_EQ(p.p90, 180);
  EXPECT_EQ(p.p99, 198);
  EXPECT_EQ(p.max, 200);
}

TEST(PercentilesTest, OfFewValues) {
  EXPECT_EQ(percentiles_of({}).count, 0U);
  const Percentiles one = percentiles_of({7});
  EXPECT_EQ(one.p50, 7);
  EXPECT_EQ(one.p99, 7);
  const Percentiles two = percentiles_of({7, 3});
  EXPECT_EQ(two.p50, 3);
  EXPECT_EQ(two.p90, 7);
}

TEST(LogHistogramTest, IsWithinHalfAPercentOfTheValues) {
  const std::uint32_t seed = test_seed();
  SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  LogHistogram histogram;
  std::vector<double> values;
  for (int i = 0; i < 20000; ++i) {
    const double value = std::exp(std::uniform_real_distribution<double>(-12, 8)(random));
    values.push_back(value);
    histogram.add(value);
  }
  const Percentiles exact = percentiles_of(values), counted = histogram.percentiles();
  EXPECT_NEAR(counted.p50 / exact.p50, 1, 0.004);
  EXPECT_NEAR(counted.p90 / exact.p90, 1, 0.004);
  EXPECT_NEAR(counted.p99 / exact.p99, 1, 0.004);
  EXPECT_EQ(counted.max, exact.max);
  EXPECT_EQ(counted.count, exact.count);
  EXPECT_NEAR(counted.mean / exact.mean, 1, 1e-9);
}

TEST(LogHistogramTest, ZeroAndRepeatedValues) {
  LogHistogram histogram;
  histogram.add(0, 3);
  histogram.add(2.0, 1);
  const Percentiles p = histogram.percentiles();
  EXPECT_EQ(p.count, 4U);
  EXPECT_EQ(p.p50, 0);
  EXPECT_EQ(p.p90, 2.0);
  ASSERT_EQ(histogram.distribution().size(), 2U);
  EXPECT_DOUBLE_EQ(histogram.distribution()[0].second, 0.75);
  EXPECT_DOUBLE_EQ(histogram.distribution()[1].second, 1);
}

}  // namespace
}  // namespace sluice::percentiles_test
