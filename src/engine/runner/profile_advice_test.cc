#include "engine/runner/profile_advice.h"

#include <gmock/gmock.h>

#include <vector>

#include "kernels/device/isa.h"

namespace sluice::profile_advice_test {
namespace {

using ::testing::AllOf;
using ::testing::DoubleNear;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr Peaks kXeon{.f32 = 175, .bf16_dot = 86, .int8 = 620, .tiles = 2900};

BoundWeight weight(InputForm inputs, WeightFormat format, WeightRole role = WeightRole::kEveryRow) {
  return {.name = "w", .role = role, .out = 1000, .in = 2000, .inputs = inputs, .format = format};
}

const BoundWeight kFp8 = weight(InputForm::kBf16, WeightFormat::kFp8);
const BoundWeight kMxfp4 = weight(InputForm::kInt8, WeightFormat::kMxfp4);

std::string advice(const std::vector<BoundWeight>& weights, const Peaks& peaks, const MoeConfig& moe = {}) {
  return tiles_advice(compare_profiles(weights, moe, peaks));
}

TEST(ProfileAdvice, SaysBothPeaksAndWhatToExpect) {
  EXPECT_THAT(advice({kFp8}, kXeon), AllOf(HasSubstr("2900 GFLOP/s on AMX tiles, 175 as"),
                                           HasSubstr("--profile amx is expected to read prompts 6.4 times")));
  EXPECT_THAT(advice({kMxfp4}, kXeon), HasSubstr("2900 GFLOP/s on AMX tiles, 620 as"));
}

TEST(ProfileAdvice, GoesByMeasuredPeaks) {
  Peaks slow = kXeon;
  slow.tiles = 1500;  // 0.25 of it is less than 0.65 of 620 ...
  EXPECT_THAT(advice({kMxfp4}, slow), IsEmpty());
  EXPECT_THAT(advice({kFp8}, slow), HasSubstr("3.3 times"));  // ... and more than that of 175
  Peaks none = kXeon;
  none.tiles = 0;
  EXPECT_THAT(advice({kFp8}, none), IsEmpty());
  Peaks little = kXeon;  // faster, but not by so much that it is worth a line
  little.tiles = 0.65 / 0.25 * 620 * 1.19;
  EXPECT_THAT(advice({kMxfp4}, little), IsEmpty());
  little.tiles = 0.65 / 0.25 * 620 * 1.21;
  EXPECT_THAT(advice({kMxfp4}, little), HasSubstr("1.2 times"));
}

TEST(ProfileAdvice, WeighsProductsByTheirWork) {
  const ProfilePeaks both = compare_profiles(std::vector{kFp8, kMxfp4}, {}, kXeon);
  EXPECT_THAT(both.by_default, DoubleNear(2 / (1.0 / 175 + 1.0 / 620), 0.01));
  EXPECT_THAT(both.by_tiles, DoubleNear(2900, 0.01));
  // A row computes 4 of 64 experts: 16 times as many weights, the same work.
  std::vector<BoundWeight> experts{kFp8};
  for (int e = 0; e < 16; ++e)
    experts.push_back(weight(InputForm::kInt8, WeightFormat::kMxfp4, WeightRole::kRoutedExpert));
  MoeConfig moe;
  moe.n_routed_experts = 64;
  moe.num_experts_per_tok = 4;
  EXPECT_THAT(compare_profiles(experts, moe, kXeon).by_default, DoubleNear(both.by_default, 0.01));
  // Weights that a prompt's rows do not multiply do not count.
  EXPECT_EQ(compare_profiles(std::vector{weight(InputForm::kBf16, WeightFormat::kBf16, WeightRole::kLogits)}, {}, kXeon)
                .by_default,
            0);
}

TEST(ProfileAdvice, IntegerCodesAndFloatsStayAsTheyAre) {
  // Codes take bf16 inputs in that profile, which vectors multiply.
  EXPECT_LT(compare_profiles(std::vector{weight(InputForm::kInt8, WeightFormat::kCodes)}, {}, kXeon).times_as_fast,
            0.5);
  EXPECT_EQ(compare_profiles(std::vector{weight(InputForm::kF32, WeightFormat::kBf16)}, {}, kXeon).times_as_fast, 1);
}

TEST(ProfileAdvice, MeasuresWhatTheKernelsMayUse) {
  using enum CpuFeature;
  const Peaks peaks = thread_peaks(cpu_features());
  EXPECT_EQ(peaks.f32 > 0, cpu_features().has(kAvx2));
  EXPECT_EQ(peaks.bf16_dot > 0, cpu_features().has(kBf16Dot));
  EXPECT_EQ(peaks.int8 > 0, cpu_features().has(kAvx2));
  EXPECT_EQ(peaks.tiles > 0, cpu_features().has(kAmxBf16));
  if (cpu_features().has(kVnni)) {
    EXPECT_GT(peaks.int8, 1.5 * peaks.f32);
  }
  const Peaks restricted = thread_peaks(cpu_features().without(kAmxBf16).without(kBf16Dot).with(kEmulatedTiles));
  EXPECT_EQ(restricted.tiles, 0) << "emulated tiles are no fast ones";
  EXPECT_EQ(restricted.bf16_dot, 0);
  EXPECT_EQ(features_of(scalar_kernels()), CpuFeatures());
}

}  // namespace
}  // namespace sluice::profile_advice_test
