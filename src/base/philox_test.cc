#include "base/philox.h"

#include <gtest/gtest.h>

namespace sluice::philox_test {
namespace {

// The known answers of the authors' own test suite (Random123, kat_vectors, "philox4x32 10").
TEST(PhiloxTest, KnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(PhiloxTest, UniformIsInRangeAndEven) {
  double sum = 0, squares = 0;
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) {
    const double u = philox_uniform(42, static_cast<std::uint64_t>(i));
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
    squares += u * u;
  }
  EXPECT_NEAR(sum / kDraws, 0.5, 0.01);
  EXPECT_NEAR(squares / kDraws, 1.0 / 3, 0.01);
}

TEST(PhiloxTest, SeedAndIndexBothCountInAllTheirBits) {
  EXPECT_NE(philox_uniform(1, 0), philox_uniform(2, 0));
  EXPECT_NE(philox_uniform(1, 0), philox_uniform(1, 1));
  EXPECT_NE(philox_uniform(1, 0), philox_uniform(std::uint64_t{1} | std::uint64_t{1} << 40, 0));
  EXPECT_NE(philox_uniform(1, 0), philox_uniform(1, std::uint64_t{1} << 40));
}

}  // namespace
}  // namespace sluice::philox_test
