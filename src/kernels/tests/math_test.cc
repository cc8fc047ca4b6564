#include <gtest/gtest.h>

#include <limits>

#include "base/threads/thread_pool.h"
#include "kernels/common/activation.h"

namespace sluice::math_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// |found - exact| in units of the last place of `exact` as f32.
double ulps(float found, double exact) {
  const float nearest = static_cast<float>(exact);
  const float step = std::nextafterf(std::fabs(nearest), kInfinity) - std::fabs(nearest);
  return std::fabs(static_cast<double>(found) - exact) / static_cast<double>(step);
}

// Calls `use` with every `stride`-th float from `low` to `high`, which have one sign.
template <class Use>
void sweep(float low, float high, std::uint32_t stride, const Use& use) {
  const auto first = std::min(std::bit_cast<std::uint32_t>(low), std::bit_cast<std::uint32_t>(high));
  const auto last = std::max(std::bit_cast<std::uint32_t>(low), std::bit_cast<std::uint32_t>(high));
  for (std::uint64_t bits = first; bits <= last; bits += stride)
    use(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
}

TEST(Math, ExpIsWithinTwoUlps) {
  double worst = 0.0;
  const auto use = [&](float x) { worst = std::max(worst, ulps(exp_f32(x), std::exp(static_cast<double>(x)))); };
  sweep(1e-8F, kExpHigh, 997, use);
  sweep(-1e-8F, -87.3F, 997, use);
  EXPECT_LT(worst, 2.0);
}

TEST(Math, ExpAtItsEnds) {
  EXPECT_EQ(exp_f32(0.0F), 1.0F);
  EXPECT_EQ(exp_f32(-0.0F), 1.0F);
  EXPECT_EQ(exp_f32(-kInfinity), 0.0F);
  EXPECT_EQ(exp_f32(kInfinity), kInfinity);
  EXPECT_EQ(exp_f32(kExpLow), 0.0F);
  EXPECT_GT(exp_f32(std::nextafterf(kExpLow, 0.0F)), 0.0F);
  EXPECT_TRUE(std::isfinite(exp_f32(kExpHigh)));
  EXPECT_EQ(exp_f32(std::nextafterf(kExpHigh, 100.0F)), kInfinity);
  EXPECT_TRUE(std::isnan(exp_f32(std::numeric_limits<float>::quiet_NaN())));
}

TEST(Math, LogIsWithinTwoUlps) {
  double worst = 0.0;
  const auto use = [&](float x) { worst = std::max(worst, ulps(log_f32(x), std::log(static_cast<double>(x)))); };
  sweep(std::numeric_limits<float>::min(), std::numeric_limits<float>::max(), 1009, use);
  sweep(0.25F, 4.0F, 7, use);  // crosses every binade boundary and sqrt(1/2), where the exponent is chosen
  EXPECT_LT(worst, 2.0);
  EXPECT_EQ(log_f32(1.0F), 0.0F);
}

TEST(Math, Log1pIsWithinThreeUlps) {
  double worst = 0.0;
  const auto use = [&](float x) { worst = std::max(worst, ulps(log1p_f32(x), std::log1p(static_cast<double>(x)))); };
  sweep(std::numeric_limits<float>::min(), 0.5F, 1009, use);
  sweep(-std::numeric_limits<float>::min(), -0.5F, 1009, use);
  sweep(-0.25F, -0.5F, 7, use);
  EXPECT_LT(worst, 3.0);
}

TEST(Math, LogistcsAgreeWithTheirDefinitions) {
  for (float x = -30.0F; x < 30.0F; x += 0.0137F) {
    const double exact = std::exp(static_cast<double>(x));
    EXPECT_NEAR(sigmoid_f32(x), exact / (1.0 + exact), 2e-7);
    EXPECT_NEAR(activated({}, x, 1.0F, 1.0F), x * exact / (1.0 + exact), 2e-6);
    EXPECT_NEAR(softplus_f32(x) / std::log1p(exact), 1.0, 5e-7) << x;
  }
  EXPECT_NEAR(std::sqrt(softplus_f32(0.0F)), 0.8325546F, 1e-7F);
  EXPECT_EQ(softplus_f32(25.0F), 25.0F);
}

}  // namespace
}  // namespace sluice::math_test
