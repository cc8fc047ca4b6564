// The time of moves, compared with the link's own speed. It is for the reports; only an upload that is far from that
// speed fails.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <vector>

#include "gpu_testing.h"

namespace sluice::gpu_speed_test {
namespace {

template <class Work>
double seconds(const Work& work) {
  gpu().wait();
  const auto begin = std::chrono::steady_clock::now();
  work();
  gpu().wait();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

TEST(GpuSpeed, Moves) {
  constexpr std::size_t kBytes = std::size_t{1} << 30;
  const DeviceMemory memory = gpu().map(2 * kBytes, "a test").value();
  std::vector<std::byte> host(kBytes, std::byte{3});
  void* pinned = nullptr;
  ASSERT_EQ(cudaMallocHost(&pinned, kBytes), cudaSuccess);
  std::memset(pinned, 3, kBytes);
  const auto rate = [](const char* what, double bytes, double took) {
    std::printf("%-40s %8.2f GB/s\n", what, bytes / took / 1e9);
    ::testing::Test::RecordProperty(what, std::to_string(bytes / took / 1e9));
    return bytes / took;
  };
  double link = 0, upload = 0;
  auto* stream = static_cast<cudaStream_t>(gpu().stream());
  for (int turn = 0; turn < 2; ++turn) {  // the first turn warms up
    link = rate("link_to_device", kBytes,
                seconds([&] { cudaMemcpyAsync(memory.data(), pinned, kBytes, cudaMemcpyHostToDevice, stream); }));
    rate("link_from_device", kBytes,
         seconds([&] { cudaMemcpyAsync(pinned, memory.data(), kBytes, cudaMemcpyDeviceToHost, stream); }));
    upload = rate("upload", kBytes, seconds([&] { gpu().upload({memory.data(), host.data(), kBytes}); }));
    rate("download", kBytes, seconds([&] { gpu().download({host.data(), memory.data(), kBytes}); }));
    rate("copy_read_and_written", 2.0 * kBytes,
         seconds([&] { gpu().copy({memory.data() + kBytes, memory.data(), kBytes}); }));
  }
  cudaFreeHost(pinned);
  EXPECT_GE(upload, 0.6 * link) << "an upload keeps the link busy";
}

// Twenty small uploads, like a step's tables, and a wait.
TEST(GpuSpeed, SmallMoves) {
  constexpr int kTurns = 1000;
  const DeviceMemory memory = gpu().map(1 << 20, "a test").value();
  std::vector<std::byte> host(1 << 20);
  std::vector<ByteMove> moves;
  for (std::size_t i = 0; i < 20; ++i) moves.push_back({memory.data() + i * 4096, host.data() + i * 4096, 700});
  const auto each = [&](const char* what, double took) {
    std::printf("%-40s %8.2f us\n", what, took / kTurns * 1e6);
    RecordProperty(what, std::to_string(took / kTurns * 1e6));
  };
  each("20_uploads_enqueued_us", seconds([&] {
         for (int i = 0; i < kTurns; ++i) gpu().upload_all(moves);
       }));
  each("20_uploads_and_wait_us", seconds([&] {
         for (int i = 0; i < kTurns; ++i) {
           gpu().upload_all(moves);
           gpu().wait();
         }
       }));
  each("download_4_kb_and_wait_us", seconds([&] {
         for (int i = 0; i < kTurns; ++i) {
           gpu().download({host.data(), memory.data(), 4096});
           gpu().wait();
         }
       }));
}

}  // namespace
}  // namespace sluice::gpu_speed_test
