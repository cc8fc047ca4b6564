#include "kernels/ops/kernel_times.h"

#include <gmock/gmock.h>

namespace sluice::kernel_times_test {
namespace {

TEST(KernelTimes, RecordsTakeTheStageOfWhatWasEnqueued) {
  const std::vector<EnqueuedKernel> enqueued = {{"norm", StepStage::kRest},
                                                {"tiles", StepStage::kDense},
                                                {"lost", StepStage::kHead},
                                                {"tiles", StepStage::kExperts}};
  // The records are out of order, with a move of the device's own among them, and one kernel has no record.
  const auto joined = join_kernels({{"tiles", 30, 40}, {"move", 5, 6}, {"norm", 0, 4}, {"tiles", 10, 20}}, enqueued);
  ASSERT_EQ(joined.size(), 4U);
  EXPECT_EQ(joined[0].name, "norm");
  EXPECT_EQ(joined[1].name, "move");
  EXPECT_EQ(joined[1].stage, StepStage::kRest);
  EXPECT_EQ(joined[2].stage, StepStage::kDense);
  EXPECT_EQ(joined[3].start_ns, 30U);
  EXPECT_EQ(joined[3].stage, StepStage::kExperts);
}

TEST(KernelTimes, NamesAreThoseOfTheKernelsThemselves) {
  EXPECT_EQ(short_kernel_name("void sluice::cuda_ops::(anonymous namespace)::run_teams<sluice::cuda_sm90::(anonymous "
                              "namespace)::TileProducts<(sluice::StripKind)0, 1, 128, (sluice::cuda_sm90::TileOutput)1"
                              ">, int, int>(sluice::cuda_sm90::(anonymous namespace)::TileProducts<>, int, int)"),
            "TileProducts<0, 1, 128, 1>");
  EXPECT_EQ(short_kernel_name("void run_teams<sluice::x::Add, int>(int)"), "Add");
  EXPECT_EQ(short_kernel_name("_ZN6sluice12_GLOBAL__N_14moveEiPKc"), "move");
  EXPECT_EQ(short_kernel_name("plain_c_name"), "plain_c_name");
}

}  // namespace
}  // namespace sluice::kernel_times_test
