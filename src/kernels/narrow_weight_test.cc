#include "kernels/narrow_weight.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/test_seed_testing.h"

namespace sluice::narrow_weight_test {
namespace {

// Floats as FP8: within half of what e4m3 resolves, under a scale that takes the largest of the block.
TEST(NarrowWeight, ItsValuesAreTheNearest) {
  const std::uint32_t seed = test_seed();
  SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  ThreadPool pool(2);
  constexpr int kOut = 2 * kNarrowBlock + 5, kIn = kNarrowBlock + 32;
  std::normal_distribution<float> normal;
  std::vector<float> values(std::size_t{kOut} * kIn);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::ldexp(normal(random), static_cast<int>(i % 7) - 9);
  values[kIn - 1] = std::numeric_limits<float>::infinity();  // in the second block
  WeightView view{.format = WeightFormat::kF32, .out = kOut, .in = kIn};
  view.data = reinterpret_cast<const std::byte*>(values.data());
  WeightView narrow = narrow_shape(view);
  std::vector<std::byte> scales(narrow_scales(narrow)), codes(static_cast<std::size_t>(kOut) * narrow.row_bytes());
  ASSERT_EQ(scales.size(), 6U);
  write_narrow_scales(&pool, view, scales.data());
  write_narrow(&pool, view, scales.data(), codes.data());
  narrow.data = codes.data(), narrow.scales = scales.data();
  float largest_code = 0;
  for (int row = 0; row < kOut; ++row) {
    for (int k = 0; k < kIn; ++k) {
      const float exact = values[static_cast<std::size_t>(row * kIn + k)], scale = narrow.scale(row, k);
      if (row < kNarrowBlock && k >= kNarrowBlock) {
        EXPECT_TRUE(std::isnan(scale));
        continue;
      }
      const float found = narrow.element(row, k) * scale;
      EXPECT_LE(std::abs(found - exact), std::max(std::abs(exact) / 16, scale / 1024)) << row << " " << k;
      largest_code = std::max(largest_code, std::abs(narrow.element(row, k)));
    }
  }
  EXPECT_GT(largest_code, 448 / 2 - 16);
}

// A largest value that is one of e4m3's is its largest code; NaN, subnormals and nothing but zeros.
TEST(NarrowWeight, ExtremesOfABlock) {
  ThreadPool pool(1);
  constexpr int kIn = 4 * kNarrowBlock;
  std::vector<float> values(kIn, 0.0F);
  const auto value = [&values](int block, int k) -> float& {
    return values[static_cast<std::size_t>(block * kNarrowBlock + k)];
  };
  value(0, 3) = -std::ldexp(448.0F, -5), value(0, 9) = std::ldexp(1.0F, -5);
  value(1, 5) = std::numeric_limits<float>::quiet_NaN(), value(1, 6) = 3;
  value(2, 0) = std::ldexp(1.0F, -130);
  WeightView view{.format = WeightFormat::kF32, .out = 1, .in = kIn};
  view.data = reinterpret_cast<const std::byte*>(values.data());
  WeightView narrow = narrow_shape(view);
  std::vector<std::byte> scales(narrow_scales(narrow)), codes(narrow.row_bytes());
  write_narrow_scales(&pool, view, scales.data());
  write_narrow(&pool, view, scales.data(), codes.data());
  narrow.data = codes.data(), narrow.scales = scales.data();
  const KeepDenormals exact;
  EXPECT_EQ(narrow.element(0, 3), -448);
  for (const int k : {3, 9}) EXPECT_EQ(narrow.element(0, k) * narrow.scale(0, k), value(0, k));
  EXPECT_TRUE(std::isnan(narrow.scale(0, kNarrowBlock)));
  EXPECT_EQ(narrow.element(0, 2 * kNarrowBlock) * narrow.scale(0, 2 * kNarrowBlock), value(2, 0));
  EXPECT_EQ(narrow.element(0, 3 * kNarrowBlock) * narrow.scale(0, 3 * kNarrowBlock), 0);
}

}  // namespace
}  // namespace sluice::narrow_weight_test
