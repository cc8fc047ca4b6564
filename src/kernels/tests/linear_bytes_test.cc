// The number of bytes that packed weights occupy.
#include <gtest/gtest.h>

#include "kernels/tests/linear_testing.h"

namespace sluice::linear_bytes_test {
namespace {

TEST(LinearBytes, PackedWeightsStayAsSmallAsStored) {
  std::mt19937 random = fresh_generator(110);
  for (const KernelTable& table : linear_tables()) {
    if (std::string(table.isa) == "scalar") continue;
    const RandomWeight fp8(random, {WeightFormat::kFp8, ScaleFormat::kE8m0, 128, 128}, 512, 256);
    const RandomWeight fp4(random, {WeightFormat::kMxfp4, ScaleFormat::kE8m0, 1, 32}, 512, 256);
    EXPECT_EQ(table.linear.packing.packed_bytes(fp8.view()), 512U * 256U + 512U * 2U) << table.name;
    EXPECT_EQ(table.linear.packing.packed_bytes(fp4.view()), 512U * 256U / 2U + 512U * 8U) << table.name;
    for (const DType codes : {DType::kQ4_0, DType::kQ4_1, DType::kQ8_0}) {
      const RandomWeight weight(random, {.format = WeightFormat::kCodes, .codes = codes}, 512, 256);
      EXPECT_EQ(table.linear.packing.packed_bytes(weight.view()), 512U * weight.view().row_bytes())
          << dtype_name(codes);
    }
    // The bytes for 32 codes of 4 or 8 bits, with f32 scales (and minima) for each 32 or 16.
    constexpr std::pair<DType, std::size_t> kBytesOf32[] = {
        {DType::kQ5_0, 34}, {DType::kQ5_1, 40}, {DType::kQ2_K, 32},   {DType::kQ3_K, 24},
        {DType::kQ4_K, 24}, {DType::kQ5_K, 40}, {DType::kIQ4_NL, 20}, {DType::kIQ4_XS, 20}};
    for (const auto& [codes, bytes] : kBytesOf32) {
      const RandomWeight weight(random, {.format = WeightFormat::kCodes, .codes = codes}, 512, 256);
      EXPECT_EQ(table.linear.packing.packed_bytes(weight.view()), 512U * 256U / 32U * bytes) << dtype_name(codes);
    }
  }
}

}  // namespace
}  // namespace sluice::linear_bytes_test
