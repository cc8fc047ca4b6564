#include "model/weights/scale_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <span>

namespace sluice::scale_tensors_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// The error for a weight of 300 x 200 in blocks of 128 x 128 with scales of this shape.
std::string error_of(const std::vector<std::int64_t>& shape, WeightFormat format = WeightFormat::kFp8) {
  const TensorView weight{.name = "w.weight", .dtype = DType::kF8E4M3, .shape = {300, 200}};
  const WeightView view{.format = format, .out = 300, .in = 200, .block_out = 128, .block_in = 128};
  const TensorView scales{.name = "w.scale", .dtype = DType::kF32, .shape = shape, .file = "f"};
  const Status status = check_scale_shape(weight, view, scales, {3, 2});
  return status.ok() ? "" : std::string(status.message());
}

TEST(ScaleTensors, OtherSchemesAreNamed) {
  EXPECT_EQ(error_of({3, 2}), "");
  EXPECT_THAT(error_of({2, 3}),
              AllOf(HasSubstr("tensor w.scale in f: expected a scale for each block of 128x128, shape "
                              "[3, 2], found F32 [2, 3]"),
                    Not(HasSubstr("per-"))));
  EXPECT_THAT(error_of({}), HasSubstr("found F32 []: a single scale for the tensor, which is per-tensor FP8; use"));
  EXPECT_THAT(error_of({1}), HasSubstr("per-tensor FP8"));
  EXPECT_THAT(error_of({300}), HasSubstr("a scale for each row, which is per-channel FP8; use"));
  EXPECT_THAT(error_of({300, 1}), HasSubstr("per-channel FP8"));
  EXPECT_THAT(error_of({1}, WeightFormat::kMxfp4), Not(HasSubstr("FP8")));
}

TEST(ScaleTensors, HalvesAreWidenedExactly) {
  const std::uint16_t bits[] = {0x3F80, 0x3C01};
  TensorView scales{.name = "s", .dtype = DType::kBF16, .shape = {1, 2}};
  scales.data = std::as_bytes(std::span(bits)).data();
  scales.bytes = sizeof bits;
  const auto widened = [&] {
    const AlignedBytes bytes = widened_scales(scales);
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  };
  ASSERT_TRUE(are_half_scales(scales));
  EXPECT_EQ(widened(), (std::vector<float>{1.0F, 0x1.02p-7F}));
  scales.dtype = DType::kF16;
  ASSERT_TRUE(are_half_scales(scales));
  EXPECT_EQ(widened(), (std::vector<float>{0x1.ep+0F, 0x1.004p+0F}));
  scales.dtype = DType::kF32;
  EXPECT_FALSE(are_half_scales(scales));
}

}  // namespace
}  // namespace sluice::scale_tensors_test
