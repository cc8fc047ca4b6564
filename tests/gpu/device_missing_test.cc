// The messages of --device cuda if something is missing, over the runtime of the tests.
#include <gtest/gtest.h>

#include "fake_cudart.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/runtime/kernel_tracer.h"

namespace sluice::gpu_device_missing_test {
namespace {

class GpuMissing : public ::testing::Test {
 protected:
  void SetUp() override { fake_cuda() = FakeCuda{}; }
  void TearDown() override { fake_cuda() = FakeCuda{}; }
  static std::string message() {
    const auto opened = open_cuda_device(0);
    return opened.ok() ? "" : opened.status().message();
  }
};

TEST_F(GpuMissing, ADriver) {
  fake_cuda().driver = 0;
  EXPECT_EQ(message(), "--device cuda: this machine has no NVIDIA driver (libcuda.so.1)");
  EXPECT_FALSE(has_cuda_device());
}

TEST_F(GpuMissing, ANewerDriver) {
  fake_cuda().driver = 12040;
  EXPECT_EQ(message(),
            "--device cuda: the NVIDIA driver supports CUDA 12.4, this program needs 13.0: install a newer driver");
  EXPECT_FALSE(has_cuda_device());
}

TEST_F(GpuMissing, TheLibraryThatTracesKernels) {
  constexpr const char* kFiles[] = {"/nowhere/libcupti.so"};
  const auto opened = KernelTracer::open(kFiles);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.status().message(),
            "--kernel-times: the library CUPTI (libcupti.so) is not found; install it, it comes with the CUDA toolkit, "
            "or name its folder in LD_LIBRARY_PATH");
}

TEST_F(GpuMissing, AGpu) {
  fake_cuda().gpus = 0;
  EXPECT_EQ(message(), "--device cuda: the driver shows no GPU (CUDA_VISIBLE_DEVICES?)");
}

TEST_F(GpuMissing, ANewerGpu) {
  fake_cuda().major = 7;
  EXPECT_EQ(message(), "--device cuda:0: GPU 0 (of the tests) has compute capability 7.0, expected 8.0 or later");
}

TEST_F(GpuMissing, AHopperForItsProfile) {
  for (const auto& [major, ours] : {std::pair{8, false}, std::pair{9, true}, std::pair{10, false}}) {
    fake_cuda().major = major;
    const auto opened = open_cuda_device(0);
    ASSERT_TRUE(opened.ok());
    const Status prepared = (*opened)->prepare_sm90();
    EXPECT_EQ(prepared.ok(), ours);
    if (ours) {
      EXPECT_EQ((*opened)->workspace_bytes(), std::size_t{5} << 28);
    } else {
      EXPECT_EQ(prepared.message(), "--profile sm90: GPU 0 (of the tests) has compute capability " +
                                        std::to_string(major) +
                                        ".0, expected 9.0 (H100, H200); choose another profile, of which default is "
                                        "the fastest");
    }
  }
}

TEST_F(GpuMissing, Nothing) {
  EXPECT_EQ(message(), "");
  EXPECT_TRUE(has_cuda_device());
}

}  // namespace
}  // namespace sluice::gpu_device_missing_test
