#include "kernels/weights/narrow_weight.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/test_seed_testing.h"

namespace sluice::narrow_weight_test {
namespace {

// Floats as FP8 are within half of what e4m3 resolves, under a scale that fits the largest value of the block.
TEST(NarrowWeight, ItsValuesAreTheNearest) {
  const std::uint32_t seed = test_seed();
  SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  ThreadPool pool(2);
  constexpr int kOut = 2 * kNarrowBlock + 5, kIn = 2 * kNarrowBlock + 32;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::normal_distribution<float> normal;
  std::vector<float> values(std::size_t{kOut} * kIn);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::ldexp(normal(random), static_cast<int>(i % 7) - 9);
  // Blocks [row][column]: one with values that are not finite, one of zeros, one with values that are no normal floats,
  // and one with a value at the end of its scale's range.
  const auto at = [&](int row, int column) -> float& {
    return values[static_cast<std::size_t>(row * kNarrowBlock * kIn + column * kNarrowBlock)];
  };
  const auto scale_block = [&](int row, int column, float by) {
    for (int r = row * kNarrowBlock; r < std::min(kOut, (row + 1) * kNarrowBlock); ++r) {
      for (int k = column * kNarrowBlock; k < std::min(kIn, (column + 1) * kNarrowBlock); ++k) {
        values[static_cast<std::size_t>(r * kIn + k)] *= by;
      }
    }
  };
  at(0, 1) = -kInfinity, at(1, 1) = std::numeric_limits<float>::quiet_NaN();
  scale_block(2, 0, 0.0F);
  scale_block(1, 2, 0x1p-126F);
  scale_block(1, 0, 0x1p-7F), at(1, 0) = -448 * 0x1p-5F;
  WeightView view{.format = WeightFormat::kF32, .out = kOut, .in = kIn};
  view.data = reinterpret_cast<const std::byte*>(values.data());
  WeightView narrow = narrow_shape(view);
  std::vector<std::byte> scales(narrow_scales(narrow)), codes(static_cast<std::size_t>(kOut) * narrow.row_bytes());
  ASSERT_EQ(scales.size(), 9U);
  write_narrow_scales(&pool, view, scales.data());
  write_narrow(&pool, view, scales.data(), codes.data());
  narrow.data = codes.data(), narrow.scales = scales.data();
  float largest_code = 0;
  for (int row = 0; row < kOut; ++row) {
    for (int k = 0; k < kIn; ++k) {
      const float exact = values[static_cast<std::size_t>(row * kIn + k)], scale = narrow.scale(row, k);
      if (row / kNarrowBlock < 2 && k / kNarrowBlock == 1) {
        EXPECT_TRUE(std::isnan(scale));
        continue;
      }
      const float found = narrow.element(row, k) * scale;
      EXPECT_LE(std::abs(found - exact), std::max(std::abs(exact) / 16, scale / 1024)) << row << " " << k;
      largest_code = std::max(largest_code, std::abs(narrow.element(row, k)));
    }
  }
  EXPECT_GT(largest_code, 448 / 2 - 16);
  EXPECT_EQ(narrow.scale(kNarrowBlock, 0), 0x1p-5F);
  EXPECT_EQ(narrow.element(kNarrowBlock, 0), -448.0F);
}

// A largest value that is one of e4m3's becomes its largest code. Other blocks have NaN, subnormals, or only zeros.
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
