// Each op in random cases: the kernels on the GPU give the bits of the reference ops.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "base/check.h"
#include "gpu_testing.h"
#include "kernels/cuda/add_norm_testing.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/op_cases_testing.h"

namespace sluice::gpu_ops_test {
namespace {

// Pinned memory, which a GPU reaches at the host's addresses. Pieces lie apart, with poisoned bytes between them.
class PinnedArena {
 public:
  static constexpr std::size_t kGap = 256;
  PinnedArena() {
    void* bytes = nullptr;
    const cudaError_t error = cudaMallocHost(&bytes, bytes_in_all_);
    SLUICE_CHECK(error == cudaSuccess, cudaGetErrorString(error));
    bytes_ = static_cast<std::byte*>(bytes);
  }
  ~PinnedArena() { cudaFreeHost(bytes_); }
  PinnedArena(const PinnedArena&) = delete;
  PinnedArena& operator=(const PinnedArena&) = delete;

  std::byte* take(std::size_t bytes) {
    std::byte* at = bytes_ + used_;
    const std::size_t whole = (bytes + 2 * kGap - 1) / kGap * kGap;
    SLUICE_CHECK(used_ + whole <= bytes_in_all_, "a case fits the arena");
    std::fill_n(at, whole, std::byte{0xFF});
    used_ += whole;
    return at;
  }
  void clear() { used_ = 0; }

 private:
  const std::size_t bytes_in_all_ = std::size_t{gpu_test_options().sizes == CaseSizes::kOfficial ? 768U : 192U} << 20;
  std::byte* bytes_ = nullptr;
  std::size_t used_ = 0;
};

class PinnedCaseMemory final : public CaseMemory {
 public:
  explicit PinnedCaseMemory(PinnedArena& arena) : arena_(arena) { arena_.clear(); }

 private:
  std::byte* allocate(std::size_t bytes) override { return arena_.take(bytes); }
  PinnedArena& arena_;
};

class ManagedCaseMemory final : public CaseMemory {
 public:
  ManagedCaseMemory() = default;
  ~ManagedCaseMemory() override {
    for (void* piece : pieces_) cudaFree(piece);
  }
  ManagedCaseMemory(const ManagedCaseMemory&) = delete;
  ManagedCaseMemory& operator=(const ManagedCaseMemory&) = delete;

 private:
  std::byte* allocate(std::size_t bytes) override {
    void* piece = nullptr;
    const cudaError_t error = cudaMallocManaged(&piece, bytes);
    SLUICE_CHECK(error == cudaSuccess, cudaGetErrorString(error));
    pieces_.push_back(piece);
    return static_cast<std::byte*>(piece);
  }
  std::vector<void*> pieces_;
};

std::unique_ptr<CaseMemory> case_memory() {
  if (gpu_test_options().managed) return std::make_unique<ManagedCaseMemory>();
  static PinnedArena arena;
  return std::make_unique<PinnedCaseMemory>(arena);
}

// Random cases of one op; check() must find each of them right.
class OpCasesOnGpu : public ::testing::TestWithParam<OpCases> {
 protected:
  template <class Check>
  void try_cases(std::uint32_t number, const Check& check) {
    Random random(number);
    ThreadPool one(1);
    const Exec exec{&one, &scalar_kernels(), &cuda_op_table(), &gpu()};
    int cases = 0;
    for (; cases < gpu_test_options().cases && !HasFailure(); ++cases) {
      const auto memory = case_memory();
      const OpCase op_case = GetParam().make(random, *memory, gpu_test_options().sizes);
      gpu().fill(gpu().workspace(), std::byte{0xFF}, kCudaWorkspaceBytes);  // NaN: the bytes are unspecified
      EXPECT_TRUE(check(op_case, exec, [] { gpu().wait(); })) << "case " << cases;
      ASSERT_TRUE(gpu().status().ok()) << gpu().status().message();
    }
    RecordProperty("cases", cases);
  }
};

class GpuOps : public OpCasesOnGpu {};
class GpuRepeats : public OpCasesOnGpu {};

TEST_P(GpuOps, GiveTheBitsOfTheReference) {
  try_cases(801, same_as_reference);
}

TEST_P(GpuRepeats, GiveTheSameBits) {
  try_cases(802, [](const OpCase& op_case, const Exec& exec, const std::function<void()>& wait) {
    return same_each_time(op_case, exec, wait, gpu_test_options().repeat);
  });
}

TEST(GpuStripsNorm, GivesTheBitsOfThePlainOrder) {
  Random random(803);
  ThreadPool one(1);
  const Exec exec{&one, &scalar_kernels(), &cuda_sm90_op_table(), &gpu()};
  for (int i = 0; i < 60 && !HasFailure(); ++i) {
    const auto memory = case_memory();
    const OpCase op_case = add_norm_in_blocks_case(random, *memory, cuda_sm90_op_table().add_norm);
    EXPECT_TRUE(same_as_reference(op_case, exec, [] { gpu().wait(); })) << "case " << i;
    ASSERT_TRUE(gpu().status().ok()) << gpu().status().message();
  }
}

const auto op_name = [](const auto& info) { return std::string(info.param.op); };
INSTANTIATE_TEST_SUITE_P(Cuda, GpuOps, ::testing::ValuesIn(all_op_cases()), op_name);
INSTANTIATE_TEST_SUITE_P(Cuda, GpuRepeats, ::testing::ValuesIn(all_op_cases()), op_name);

}  // namespace
}  // namespace sluice::gpu_ops_test
