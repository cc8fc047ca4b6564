#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <set>
#include <vector>

#include "base/formats/number_formats.h"
#include "kernels/cuda/linear_layout.h"
#include "kernels/cuda/strip_layout.h"
#include "kernels/tests/linear_testing.h"

namespace sluice::strip_pack_test {
namespace {

constexpr WeightForm kBf16{WeightFormat::kBf16, ScaleFormat::kNone},
    kE8m0{WeightFormat::kFp8, ScaleFormat::kE8m0, 128, 128},
    kF32Scales{WeightFormat::kFp8, ScaleFormat::kF32, 128, 128},
    kMxfp4{WeightFormat::kMxfp4, ScaleFormat::kE8m0, 1, 32};

std::vector<std::byte> packed(const WeightView& view) {
  const LinearPacking& packing = sm90_linear_packing().of(view, InputForm::kBf16);
  std::vector<std::byte> bytes(packing.packed_bytes(view), std::byte{0xFF});
  pack_linear_weight(nullptr, packing, view, bytes.data());
  return bytes;
}

// The weight with scales of at most 2 if it is MXFP4: larger ones are infinite.
WeightView with_trained_scales(WeightView view, std::vector<std::byte>& scales) {
  if (view.format != WeightFormat::kMxfp4) return view;
  scales.assign(view.scales, view.scales + static_cast<std::ptrdiff_t>(view.out) * view.scale_columns);
  for (std::byte& scale : scales) scale = std::min(scale, std::byte{128});
  view.scales = scales.data();
  return view;
}

// The values that a lane's registers hold, as a kernel makes them of packed bytes, by (output, input) of the padded
// weight.
class Unpacked {
 public:
  Unpacked(const WeightView& view, const std::vector<std::byte>& bytes) : shape_(view), bytes_(bytes) {
    values_.assign(static_cast<std::size_t>(shape_.strips * kStripOutputs * shape_.padded_in()), NAN);
    for (int strip = 0; strip < shape_.strips; ++strip) {
      for (int cell = 0; cell < shape_.cells; ++cell) {
        for (int lane = 0; lane < 32; ++lane) {
          for (int step = 0; step < kCellSteps; ++step) unpack(strip, cell, lane, step);
        }
      }
    }
  }
  float at(int n, int k) const { return values_[static_cast<std::size_t>(n * shape_.padded_in() + k)]; }
  const StripLinear& shape() const { return shape_; }

 private:
  template <class T>
  T read(std::size_t at) const {
    T value;
    std::memcpy(&value, bytes_.data() + at, sizeof value);
    return value;
  }
  static float power(unsigned exponent) { return std::bit_cast<float>(exponent << 23); }

  void unpack(int strip, int cell, int lane, int step) {
    const auto s = static_cast<std::size_t>(step), l = static_cast<std::size_t>(lane);
    const std::size_t strip_at = static_cast<std::size_t>(strip) * shape_.strip_bytes;
    const std::size_t at =
        strip_at + (shape_.kind == StripKind::kMxfp4 ? static_cast<std::size_t>(cell / 4 * 2176 + cell % 4 * 512)
                                                     : static_cast<std::size_t>(cell) * shape_.cell_bytes);
    const std::size_t scales = shape_.scales_at + static_cast<std::size_t>(strip) * shape_.strip_scale_bytes;
    const std::size_t g = l / 4, block = static_cast<std::size_t>(cell / shape_.scale_cells);
    for (int r = 0; r < 4; ++r) {
      std::uint32_t pair = 0;
      float scale = 1.0F;
      const auto high = static_cast<std::size_t>(r % 2);
      if (shape_.kind == StripKind::kBf16) {
        pair = read<std::uint32_t>(at + (s * 32 + l) * 16 + static_cast<std::size_t>(r) * 4);
      } else if (shape_.kind == StripKind::kMxfp4) {
        pair = strip_e2m1(read<std::uint32_t>(at + l * 16 + s * 4), r);
        scale = power(read<std::uint8_t>(strip_at + static_cast<std::size_t>(cell / 4 * 2176 + 2048 + cell % 4 * 32) +
                                         g * 4 + high * 2 + s / 2));
      } else {
        const auto word =
            read<std::uint32_t>(at + (s / 2 * 32 + l) * 16 + s % 2 * 8 + static_cast<std::size_t>(r / 2) * 4);
        pair = strip_e4m3(word, r % 2 != 0);
        scale = shape_.kind == StripKind::kFp8Scaled ? 0x1p120F * read<float>(scales + (block * 16 + g + 8 * high) * 4)
                                                     : power(read<std::uint8_t>(scales + block * 16 + g * 2 + high));
      }
      const int n = strip * kStripOutputs + fragment_row(lane, r),
                k = cell * kCellInputs + fragment_input(lane, step, r);
      for (int half = 0; half < 2; ++half) {
        const float value = to_float(bf16{static_cast<std::uint16_t>(pair >> (16 * half))});
        values_[static_cast<std::size_t>(n * shape_.padded_in() + k + half)] = value * scale;
      }
    }
  }

  StripLinear shape_;
  const std::vector<std::byte>& bytes_;
  std::vector<float> values_;
};

class StripPack : public ::testing::TestWithParam<WeightForm> {};

TEST_P(StripPack, EveryRegisterHoldsItsWeightAndZerosSurroundThem) {
  std::mt19937 random(11);
  for (const auto& [out, in] : {std::pair{16, 64}, std::pair{40, 200}, std::pair{33, 1030}}) {
    RandomWeight weight(random, GetParam(), out, in);
    std::vector<std::byte> scales;
    const WeightView view = with_trained_scales(weight.view(), scales);
    const std::vector<std::byte> bytes = packed(view);
    const Unpacked unpacked(view, bytes);
    for (int n = 0; n < unpacked.shape().strips * kStripOutputs; ++n) {
      for (int k = 0; k < unpacked.shape().padded_in(); ++k) {
        const bool stored = n < view.out && k < view.in;
        ASSERT_EQ(unpacked.at(n, k), stored ? view.element(n, k) * view.scale(n, k) : 0.0F) << n << " " << k;
      }
    }
  }
}

TEST_P(StripPack, PiecesMakeTheWhole) {
  std::mt19937 random(12);
  RandomWeight weight(random, GetParam(), 100, 256);
  const WeightView view = weight.view();
  const LinearPacking& packing = sm90_linear_packing().of(view, InputForm::kBf16);
  std::vector<std::byte> pieces(packing.packed_bytes(view), std::byte{0xFF});
  for (int begin = 96; begin >= 0; begin -= 16) packing.pack(view, begin, std::min(100, begin + 16), pieces.data());
  EXPECT_EQ(pieces, packed(view));
}

INSTANTIATE_TEST_SUITE_P(Formats, StripPack, ::testing::Values(kBf16, kE8m0, kF32Scales, kMxfp4));

TEST(StripLayout, SegmentsDependOnTheWeightAlone) {
  const auto segments = [](WeightFormat format, ScaleFormat scales, int out, int in) {
    const StripLinear shape(WeightView{.format = format, .out = out, .in = in, .scale_format = scales});
    return std::pair{shape.segments, shape.segment_cells};
  };
  using Cut = std::pair<int, int>;
  EXPECT_EQ(segments(WeightFormat::kBf16, ScaleFormat::kNone, 16, 64), Cut(1, 1));
  EXPECT_EQ(segments(WeightFormat::kBf16, ScaleFormat::kNone, 512, 4096), Cut(8, 8));
  EXPECT_EQ(segments(WeightFormat::kBf16, ScaleFormat::kNone, 129280, 4096), Cut(1, 64)) << "wide: one chain";
  EXPECT_EQ(segments(WeightFormat::kFp8, ScaleFormat::kE8m0, 32768, 1024), Cut(1, 16));
  EXPECT_EQ(segments(WeightFormat::kFp8, ScaleFormat::kE8m0, 4096, 16384), Cut(8, 32));
  EXPECT_EQ(segments(WeightFormat::kFp8, ScaleFormat::kF32, 4096, 16384), Cut(128, 2));
  EXPECT_EQ(segments(WeightFormat::kBf16, ScaleFormat::kNone, 16, 1100), Cut(3, 6));
}

TEST(StripLayout, FragmentsCoverACellOnce) {
  std::set<std::pair<int, int>> places;
  for (int lane = 0; lane < 32; ++lane) {
    for (int step = 0; step < kCellSteps; ++step) {
      for (int r = 0; r < 4; ++r) places.insert({fragment_row(lane, r), fragment_input(lane, step, r)});
    }
  }
  EXPECT_EQ(places.size(), 16U * 32U);
  EXPECT_EQ(places.rbegin()->first, 15);
}

// A scale that the exponent of a bf16 value cannot hold together with the weight's own, and a weight that is no number.
TEST(StripPack, WhatCannotBeMultipliedIsInfinite) {
  std::mt19937 random(13);
  RandomWeight weight(random, kMxfp4, 16, 64);
  const WeightView view = weight.view();
  std::vector<std::byte> scales(16 * 2, std::byte{128});
  WeightView changed = view;
  changed.scales = scales.data();
  changed.scale_columns = 2;
  scales[3] = std::byte{129};  // row 1, inputs 32 to 63
  const std::vector<std::byte> bytes = packed(changed);
  constexpr std::size_t at = 2048;  // after four cells
  EXPECT_EQ(bytes[at], std::byte{254});
  EXPECT_EQ(bytes[at + 4], std::byte{254});
  EXPECT_EQ(bytes[at + 5], std::byte{255});
}

TEST(Sm90Packing, OtherWeightsArePackedAsForTheSharedOrders) {
  std::mt19937 random(14);
  RandomWeight bf16(random, kBf16, 48, 256), codes(random, {WeightFormat::kMxfp4, ScaleFormat::kE8m0, 1, 32}, 48, 256);
  EXPECT_EQ(&sm90_linear_packing().of(bf16.view(), InputForm::kF32), &sm90_linear_packing());
  EXPECT_EQ(&sm90_linear_packing().of(codes.view(), InputForm::kInt8), &sm90_linear_packing());
  EXPECT_NE(&sm90_linear_packing().of(bf16.view(), InputForm::kInt8), &sm90_linear_packing());  // as bf16
  EXPECT_EQ(sm90_linear_packing().packed_bytes(bf16.view()), cuda_linear_packing().packed_bytes(bf16.view()));
  EXPECT_EQ(&cuda_linear_packing().of(bf16.view(), InputForm::kBf16), &cuda_linear_packing());
}

}  // namespace
}  // namespace sluice::strip_pack_test
