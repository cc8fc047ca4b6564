#include "bench/step_kernels.h"

#include <gmock/gmock.h>

namespace sluice::step_kernels_test {
namespace {

using ::testing::HasSubstr;

// Two steps of a product, a kernel that overlaps it and ends later, and one after a gap.
TEST(StepKernelsTest, AKernelAddsWhatNoneBeforeItCovers) {
  std::vector<KernelTime> times;
  for (const std::uint64_t step : {0, 100'000}) {
    times.push_back({"tiles", step, step + 40'000, StepStage::kExperts});
    times.push_back({"tiles", step + 10'000, step + 50'000, StepStage::kExperts});
    times.push_back({"short", step + 20'000, step + 30'000, StepStage::kDense});
    times.push_back({"norm", step + 60'000, step + 100'000, StepStage::kRest});
  }
  StepWork work;
  work.experts.bytes = 20'000'000;
  const StepKernels table = step_kernels(times, {work, work}, MachineSpeed{.read_gbytes = 1000});
  EXPECT_DOUBLE_EQ(table.step_us, 100);
  EXPECT_DOUBLE_EQ(table.idle_us, 10);
  ASSERT_EQ(table.kernels.size(), 3U);
  EXPECT_EQ(table.kernels[0].name, "tiles");
  EXPECT_DOUBLE_EQ(table.kernels[0].adds_us, 50);
  EXPECT_DOUBLE_EQ(table.kernels[0].count, 2);
  EXPECT_DOUBLE_EQ(table.kernels[1].adds_us, 40);
  EXPECT_DOUBLE_EQ(table.kernels[2].adds_us, 0);
  ASSERT_EQ(table.stages.size(), 3U);
  EXPECT_EQ(table.stages[0].stage, StepStage::kExperts);
  EXPECT_NEAR(table.stages[0].floor_us, 20, 1e-9);
  const std::string text = to_text(table, "8 concurrent");
  EXPECT_THAT(text, HasSubstr("kernels of a step of 8 concurrent: 100.0 us, of which the device is idle 10.0\n"));
  EXPECT_THAT(text, HasSubstr("experts             50.0    50.0        20.0        20.0      2.50\n"));
  EXPECT_THAT(text, HasSubstr("experts             50.0    50.0         2.0       25.00  tiles\n"));
  EXPECT_THAT(text, HasSubstr("                     0.0     0.0         1.0        0.00  others\n"));
}

TEST(StepKernelsTest, NothingThatRanIsNoTable) {
  EXPECT_EQ(to_text(step_kernels({}, {StepWork{}}, MachineSpeed{}), "x"), "");
  EXPECT_EQ(to_text(step_kernels({{"a", 0, 1}}, {}, MachineSpeed{}), "x"), "");
}

}  // namespace
}  // namespace sluice::step_kernels_test
