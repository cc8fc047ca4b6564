#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <vector>

#include "kernels/cuda/fp8_layout.h"
#include "kernels/cuda/strip_layout.h"
#include "kernels/tests/linear_testing.h"

namespace sluice::fp8_pack_test {
namespace {

constexpr WeightForm kE8m0{WeightFormat::kFp8, ScaleFormat::kE8m0, 128, 128},
    kF32Scales{WeightFormat::kFp8, ScaleFormat::kF32, 128, 128},
    kOfSixteen{WeightFormat::kFp8, ScaleFormat::kF32, 16, 256};

TEST(Fp8Pack, EveryPlaceOfAnOperandIsOfOneInput) {
  std::set<int> places;
  for (int row = 0; row < kFp8Outputs; ++row) {
    for (int k = 0; k < kFp8Inputs; ++k) places.insert(fp8_byte(row, k));
  }
  EXPECT_EQ(places.size(), std::size_t{kFp8TileBytes});
  EXPECT_EQ(*places.begin(), 0);
  EXPECT_EQ(*places.rbegin(), kFp8TileBytes - 1);
  for (int row = 0; row < 8; ++row) {  // rows from a multiple of 8 on are an operand of their own
    EXPECT_EQ(fp8_byte(row + 24, 77), fp8_byte(row, 77) + 24 * kFp8Inputs);
  }
}

TEST(Fp8Pack, TilesHaveTheCodesAndScalesOfTheWeight) {
  std::mt19937 random(8);
  for (const WeightForm& form : {kE8m0, kF32Scales, kOfSixteen}) {
    for (const auto& [out, in] : {std::pair{64, 128}, std::pair{200, 300}, std::pair{9, 520}}) {
      const RandomWeight weight(random, form, out, in);
      const WeightView& view = weight.view();
      ASSERT_TRUE(Fp8Linear::takes(view));
      const Fp8Linear shape(view);
      const LinearPacking& packing = sm90_fp8_linear_packing().of(view, InputForm::kFp8Blocks);
      std::vector<std::byte> packed(packing.packed_bytes(view), std::byte{0xFF});
      ASSERT_EQ(packed.size(), shape.bytes());
      pack_linear_weight(nullptr, packing, view, packed.data());
      for (int n = 0; n < shape.tiles * kFp8Outputs; ++n) {
        for (int k = 0; k < shape.blocks * kFp8Inputs; ++k) {
          const std::size_t block = static_cast<std::size_t>(n / kFp8Outputs * shape.blocks + k / kFp8Inputs);
          const std::byte code =
              packed[block * kFp8TileBytes + static_cast<std::size_t>(fp8_byte(n % kFp8Outputs, k % kFp8Inputs))];
          const bool has = n < out && k < in;
          ASSERT_EQ(code, has ? view.data[static_cast<std::ptrdiff_t>(n) * in + k] : std::byte{0}) << n << " " << k;
          float scale;
          std::memcpy(&scale, &packed[shape.scales_at + (block * 4 + static_cast<std::size_t>(n % 64 / 16)) * 4], 4);
          if (has) {
            ASSERT_EQ(scale, view.scale(n, k)) << n << " " << k;
          }
        }
      }
    }
  }
}

TEST(Fp8Pack, OtherWeightsArePackedForTheKernelsThatTakeThem) {
  std::mt19937 random(9);
  const auto packed = [](const LinearPacking& all, const WeightView& view, InputForm wanted) {
    const LinearPacking& packing = all.of(view, wanted);
    std::vector<std::byte> bytes(packing.packed_bytes(view));
    pack_linear_weight(nullptr, packing, view, bytes.data());
    return bytes;
  };
  const WeightForm fp4{WeightFormat::kMxfp4, ScaleFormat::kE8m0, 1, 32}, bf16{WeightFormat::kBf16, ScaleFormat::kNone},
      small_blocks{WeightFormat::kFp8, ScaleFormat::kE8m0, 32, 64}, f32{};
  for (const WeightForm& form : {fp4, bf16}) {  // in strips, as if inputs are bf16
    const RandomWeight weight(random, form, 40, 256);
    EXPECT_EQ(packed(sm90_fp8_linear_packing(), weight.view(), InputForm::kFp8Blocks),
              packed(sm90_linear_packing(), weight.view(), InputForm::kBf16));
  }
  for (const WeightForm& form : {small_blocks, f32}) {  // in the shared orders
    const RandomWeight weight(random, form, 40, 256);
    EXPECT_FALSE(Fp8Linear::takes(weight.view()));
    EXPECT_EQ(packed(sm90_fp8_linear_packing(), weight.view(), InputForm::kFp8Blocks),
              packed(sm90_linear_packing(), weight.view(), InputForm::kF32));
  }
  const RandomWeight weight(random, kE8m0, 256, 256);
  EXPECT_TRUE(Fp8Linear::takes(slice_rows(weight.view(), 16, 100)));
  EXPECT_FALSE(Fp8Linear::takes(slice_rows(weight.view(), 8, 100)));  // it would need two scales for sixteen outputs
}

}  // namespace
}  // namespace sluice::fp8_pack_test
