#include "base/formats/number_formats.h"

#include <gtest/gtest.h>

#include <cmath>

namespace sluice::number_formats_test {
namespace {

TEST(E4m3, EveryCodeRoundTrips) {
  for (int code = 0; code < 256; ++code) {
    if ((code & 0x7F) == 0x7F) continue;  // NaN
    EXPECT_EQ(float_to_e4m3(e4m3_to_float(static_cast<std::uint8_t>(code))), code) << code;
  }
  EXPECT_EQ(e4m3_to_float(0x7E), 448.0F);
  EXPECT_EQ(float_to_e4m3(1e9F), 0x7E);
  EXPECT_TRUE(std::isnan(e4m3_to_float(0xFF)));
}

TEST(E4m3, RoundsToTheNearestCodeTiesToEven) {
  for (int code = 0; code < 0x7E; ++code) {
    const float low = e4m3_to_float(static_cast<std::uint8_t>(code));
    const float high = e4m3_to_float(static_cast<std::uint8_t>(code + 1));
    const float middle = (low + high) / 2;
    EXPECT_EQ(float_to_e4m3(middle), code % 2 == 0 ? code : code + 1) << code;
    EXPECT_EQ(float_to_e4m3(std::nextafter(middle, 0.0F)), code);
    EXPECT_EQ(float_to_e4m3(std::nextafter(middle, 1e9F)), code + 1);
    EXPECT_EQ(float_to_e4m3(-std::nextafter(middle, 1e9F)), (code + 1) | 0x80);
  }
}

TEST(E2m1, TiesGoToTheEvenCode) {
  const float ties[] = {0.25F, 0.75F, 1.25F, 1.75F, 2.5F, 3.5F, 5.0F};
  const float expected[] = {0.0F, 1.0F, 1.0F, 2.0F, 2.0F, 4.0F, 4.0F};
  for (int i = 0; i < 7; ++i) {
    EXPECT_EQ(e2m1_to_float(float_to_e2m1(ties[i])), expected[i]) << ties[i];
    EXPECT_EQ(e2m1_to_float(float_to_e2m1(-ties[i])), -expected[i]) << ties[i];
  }
  EXPECT_EQ(e2m1_to_float(float_to_e2m1(100.0F)), 6.0F);
}

TEST(Pow2Ceil, AsTheSpecificationsExamples) {
  EXPECT_EQ(pow2_ceil(448.0F * (1.0F / 448.0F)), 1.0F);
  EXPECT_EQ(pow2_ceil(449.0F * (1.0F / 448.0F)), 2.0F);
  EXPECT_EQ(pow2_ceil(1e-4F * (1.0F / 448.0F)), 0x1p-22F);
  EXPECT_EQ(pow2_ceil(6.01F / 6.0F), 2.0F);
  EXPECT_EQ(e8m0_to_float(pow2_to_e8m0(0x1p-22F)), 0x1p-22F);
}

TEST(Bf16, RoundsToNearestEven) {
  EXPECT_EQ(to_bf16(1.0F).bits, 0x3F80);
  EXPECT_EQ(to_bf16(1.00390625F).bits, 0x3F80);  // tie, even below
  EXPECT_EQ(to_bf16(1.01171875F).bits, 0x3F82);  // tie, even above
  EXPECT_TRUE(std::isnan(round_to_bf16(std::nanf(""))));
}

TEST(F16, KnownValues) {
  EXPECT_EQ(to_float(f16{0x3C00}), 1.0F);
  EXPECT_EQ(to_float(f16{0x0001}), 0x1p-24F);
  EXPECT_EQ(to_float(f16{0xC000}), -2.0F);
  EXPECT_TRUE(std::isinf(to_float(f16{0x7C00})));
}

TEST(F16, RoundsToNearestEven) {
  for (std::uint32_t code = 0; code < 0x7C00; ++code) {
    const float value = to_float(f16{static_cast<std::uint16_t>(code)});
    ASSERT_EQ(to_f16(value).bits, code);
    ASSERT_EQ(to_f16(-value).bits, code | 0x8000);
    if (code == 0x7BFF) break;
    const float next = to_float(f16{static_cast<std::uint16_t>(code + 1)}), middle = (value + next) / 2;
    ASSERT_EQ(to_f16(middle).bits, code + code % 2);
    ASSERT_EQ(to_f16(std::nextafterf(middle, 0)).bits, code);
    ASSERT_EQ(to_f16(std::nextafterf(middle, 1e9F)).bits, code + 1);
  }
  EXPECT_EQ(to_f16(65519.99F).bits, 0x7BFF);
  EXPECT_EQ(to_f16(65520.0F).bits, 0x7C00);
  EXPECT_EQ(to_f16(-INFINITY).bits, 0xFC00);
  EXPECT_TRUE(std::isnan(to_float(to_f16(std::nanf("")))));
}

TEST(NumberFormats, KnowOneNaNOnly) {
  for (const std::uint32_t bits : {0x7FC00000U, 0xFFC00000U, 0x7FFFFFFFU, 0xFFFFFFFFU, 0x7F800001U, 0xFFABCDEFU}) {
    const auto value = std::bit_cast<float>(bits);
    EXPECT_EQ(to_bf16(value).bits, 0x7FC0) << bits;
    EXPECT_EQ(to_f16(value).bits, 0x7E00) << bits;
    EXPECT_EQ(float_to_e4m3(value), 0x7F) << bits;
    EXPECT_EQ(float_to_e2m1(value), 7) << bits;
  }
}

}  // namespace
}  // namespace sluice::number_formats_test
