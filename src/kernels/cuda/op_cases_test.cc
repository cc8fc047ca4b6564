// Every CUDA kernel, compiled for the CPU, gives the bits of the reference ops.
#include "kernels/cuda/emulated_testing.h"
#include "kernels/cuda/op_cases_testing.h"

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
    const OpCase op_case = GetParam().make(random, memory);
    EXPECT_TRUE(same_as_reference(op_case, exec, [] {})) << "case " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Cuda, CudaKernels, ::testing::ValuesIn(all_op_cases()),
                         [](const auto& info) { return std::string(info.param.op); });

}  // namespace
}  // namespace sluice::op_cases_test
