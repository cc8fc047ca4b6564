// Each op in random cases: the kernels on the GPU give the bits of the reference ops.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "base/check.h"
#include "gpu_testing.h"
#include "kernels/cuda/op_cases_testing.h"

namespace sluice::gpu_ops_test {
namespace {

// Pinned memory, which a GPU reaches at the host's addresses. Pieces lie apart, poisoned between.
class PinnedArena {
 public:
  static constexpr std::size_t kBytes = std::size_t{1} << 28, kGap = 256;
  PinnedArena() {
    void* bytes = nullptr;
    SLUICE_CHECK(cudaMallocHost(&bytes, kBytes) == cudaSuccess, "a quarter GiB of pinned memory");
    bytes_ = static_cast<std::byte*>(bytes);
  }
  ~PinnedArena() { cudaFreeHost(bytes_); }
  PinnedArena(const PinnedArena&) = delete;
  PinnedArena& operator=(const PinnedArena&) = delete;

  std::byte* take(std::size_t bytes) {
    std::byte* at = bytes_ + used_;
    const std::size_t whole = (bytes + 2 * kGap - 1) / kGap * kGap;
    SLUICE_CHECK(used_ + whole <= kBytes, "a case fits the arena");
    std::fill_n(at, whole, std::byte{0xFF});
    used_ += whole;
    return at;
  }
  void clear() { used_ = 0; }

 private:
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

class GpuOps : public ::testing::TestWithParam<OpCases> {};

TEST_P(GpuOps, GiveTheBitsOfTheReference) {
  static PinnedArena arena;
  Random random(801);
  ThreadPool one(1);
  const Exec exec{&one, &scalar_kernels(), &cuda_op_table(), &gpu()};
  int cases = 0;
  for (; cases < op_cases() && !HasFailure(); ++cases) {
    PinnedCaseMemory memory(arena);
    const OpCase op_case = GetParam().make(random, memory);
    EXPECT_TRUE(same_as_reference(op_case, exec, [] { gpu().wait(); })) << "case " << cases;
    ASSERT_TRUE(gpu().status().ok()) << gpu().status().message();
  }
  RecordProperty("cases", cases);
}

INSTANTIATE_TEST_SUITE_P(Cuda, GpuOps, ::testing::ValuesIn(all_op_cases()),
                         [](const auto& info) { return std::string(info.param.op); });

}  // namespace
}  // namespace sluice::gpu_ops_test
