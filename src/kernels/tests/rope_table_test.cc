#include "kernels/ops/rope_table.h"

#include <gtest/gtest.h>

#include <cmath>

namespace sluice::rope_table_test {
namespace {

TEST(RopeTable, PlainFrequenciesAsTheSpecificationsNumbers) {
  const auto f = rope_frequencies(10000.0, 64, nullptr);
  EXPECT_FLOAT_EQ(f[1], 7.4989421e-1F);
  EXPECT_FLOAT_EQ(f[15], 1.3335214e-2F);
  EXPECT_FLOAT_EQ(f[20], 3.1622777e-3F);
  EXPECT_FLOAT_EQ(f[31], 1.3335214e-4F);
}

TEST(RopeTable, YarnFrequenciesAsTheSpecificationsNumbers) {
  const YarnScaling yarn{16, 32, 1, 65536};
  const auto f = rope_frequencies(160000.0, 64, &yarn);
  EXPECT_FLOAT_EQ(f[1], 6.8765602e-1F);
  EXPECT_FLOAT_EQ(f[15], 3.6355386e-3F);
  EXPECT_FLOAT_EQ(f[16], 2.2656250e-3F);
  EXPECT_FLOAT_EQ(f[20], 2.9697778e-4F);
  EXPECT_FLOAT_EQ(f[24], 1.9531250e-5F);
  EXPECT_FLOAT_EQ(f[25], 5.3723127e-6F);
  EXPECT_FLOAT_EQ(f[31], 5.6805290e-7F);
}

TEST(RopeTable, GrowingKeepsWhatWasThere) {
  RopeTable grown(rope_frequencies(10000.0, 64, nullptr)), whole(rope_frequencies(10000.0, 64, nullptr));
  ASSERT_TRUE(grown.reserve(cpu_device(), 6000).ok());
  ASSERT_TRUE(whole.reserve(cpu_device(), 5000).ok());
  whole.ensure(5000);
  for (Position p : {1, 1025, 3000, 5000}) grown.ensure(p);
  for (std::size_t i = 0; i < 5000U * 64U; ++i) ASSERT_EQ(grown.data()[i], whole.data()[i]) << i;
  EXPECT_EQ(whole.data()[0], 1.0F);
  EXPECT_EQ(whole.data()[1], 0.0F);
  EXPECT_FLOAT_EQ(whole.data()[64 * 100], std::cos(100.0F));
  for (std::size_t i = 0; i < 64; ++i) ASSERT_EQ(grown.delayed()[i], whole.data()[i]) << i;
  for (std::size_t i = 0; i < 4999U * 64U; ++i) ASSERT_EQ(grown.delayed()[64 + i], whole.data()[i]) << i;
}

}  // namespace
}  // namespace sluice::rope_table_test
