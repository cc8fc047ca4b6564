// Every CUDA kernel, compiled for the CPU, gives the bits of the reference ops.
#include "kernels/cuda/add_norm_testing.h"
#include "kernels/cuda/op_cases_testing.h"
#include "kernels/cuda/shared/add_norm.h"

namespace sluice::op_cases_test {
namespace {

class CudaKernels : public ::testing::TestWithParam<OpCases> {};

TEST_P(CudaKernels, GiveTheBitsOfTheReference) {
  constexpr int kCases = 25;
  Random random(701);
  ThreadPool one(1);
  const Exec exec{&one, &scalar_kernels(), &cuda_emulated_op_table()};
  for (int i = 0; i < kCases && !HasFailure(); ++i) {
    HostCaseMemory memory;
    const OpCase op_case = GetParam().make(random, memory, CaseSizes::kAny);
    EXPECT_TRUE(same_as_reference(op_case, exec, [] {})) << "case " << i;
  }
}

TEST_P(CudaKernels, GiveTheBitsOfTheReferenceInOfficialShapes) {
  Random random(702);
  ThreadPool one(1);
  const Exec exec{&one, &scalar_kernels(), &cuda_emulated_op_table()};
  HostCaseMemory memory;
  EXPECT_TRUE(same_as_reference(GetParam().make(random, memory, CaseSizes::kOfficial), exec, [] {}));
}

// An op that writes something else when it has run `good` times.
OpCase op_that_changes(CaseMemory& memory, int good) {
  const auto y = memory.poisoned<float>(3);
  int& runs = memory.keep<int>(0);
  return {"changes", [=, &runs](const Exec&, bool) { y[2] = runs++ < good ? 1.0F : -0.0F; }, {y}, {}};
}

TEST(CudaCases, SeeWhatDiffers) {
  ThreadPool one(1);
  const Exec exec{&one, &scalar_kernels(), &cuda_emulated_op_table()};
  HostCaseMemory memory;
  EXPECT_TRUE(same_as_reference(op_that_changes(memory, 2), exec, [] {}));
  EXPECT_FALSE(same_as_reference(op_that_changes(memory, 1), exec, [] {}));
  EXPECT_TRUE(same_each_time(op_that_changes(memory, 10), exec, [] {}, 10));
  EXPECT_FALSE(same_each_time(op_that_changes(memory, 9), exec, [] {}, 10));
}

TEST(CudaCases, NormsInBlocksAreThoseOfThePlainOrder) {
  constexpr int kCases = 25;
  Random random(703);
  ThreadPool one(1);
  const Exec exec{&one, &scalar_kernels(), &cuda_emulated_op_table()};
  for (int i = 0; i < kCases && !HasFailure(); ++i) {
    HostCaseMemory memory;
    const OpCase op_case = add_norm_in_blocks_case(random, memory, cuda_emulated_ops::add_norm_in_blocks);
    EXPECT_TRUE(same_as_reference(op_case, exec, [] {})) << "case " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Cuda, CudaKernels, ::testing::ValuesIn(all_op_cases()),
                         [](const auto& info) { return std::string(info.param.op); });

}  // namespace
}  // namespace sluice::op_cases_test
