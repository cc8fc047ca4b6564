// The time of an all_gather among the GPUs of this machine, in a graph of 100, by the bytes of a share.
#include <gtest/gtest.h>

#include <barrier>
#include <string>

#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/launch.h"
#include "kernels/ops/ops.h"
#include "ranks_testing.h"

namespace sluice::gpu_ranks_speed_test {
namespace {

using namespace std::chrono_literals;
using cuda_ops::Team;

struct Nothing {
  static constexpr int kThreads = 32;
  SLUICE_DEVICE void operator()(const Team<kThreads>&) const {}
};

void check(cudaError_t error) {
  ASSERT_EQ(error, cudaSuccess) << cudaGetErrorString(error);
}

class Timer {
 public:
  explicit Timer(Ranks& ranks) : ranks_(ranks), meet_(ranks.count()), slowest_(static_cast<std::size_t>(ranks.count())) {}

  // Returns the microseconds of one of kOfGraph ops: the slowest rank's median.
  double time(const std::function<void(int rank)>& enqueue, int starts) {
    ranks_.each([&](int rank) { time_rank(rank, enqueue, starts); });
    return *std::ranges::max_element(slowest_);
  }

 private:
  static constexpr int kOfGraph = 100, kRepeats = 5;

  void time_rank(int rank, const std::function<void(int)>& enqueue, int starts) {
    CudaDevice& device = ranks_.device(rank);
    auto* stream = static_cast<cudaStream_t>(device.stream());
    enqueue(rank);  // a kernel's settings, which are asked for once, are not asked for during a capture
    device.wait();
    device.mark();  // so that the first kernel of the graph follows no kernel
    meet_.arrive_and_wait();
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t ready = nullptr;
    cudaEvent_t begin = nullptr, end = nullptr;
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < kOfGraph; ++i) enqueue(rank);
    check(cudaStreamEndCapture(stream, &graph));
    check(cudaGraphInstantiate(&ready, graph, 0));
    check(cudaGraphUpload(ready, stream));
    check(cudaEventCreate(&begin)), check(cudaEventCreate(&end));
    check(cudaStreamSynchronize(stream));
    meet_.arrive_and_wait();  // no rank's kernels may wait while another rank allocates
    std::vector<double> us;
    for (int repeat = 0; repeat <= kRepeats; ++repeat) {  // the first repeat warms up
      meet_.arrive_and_wait();
      check(cudaEventRecord(begin, stream));
      for (int i = 0; i < starts; ++i) check(cudaGraphLaunch(ready, stream));
      check(cudaEventRecord(end, stream));
      check(cudaStreamSynchronize(stream));
      float ms = 0.0F;
      check(cudaEventElapsedTime(&ms, begin, end));
      if (repeat > 0) us.push_back(double{ms} * 1e3 / kOfGraph / starts);
    }
    std::ranges::sort(us);
    slowest_[static_cast<std::size_t>(rank)] = us[us.size() / 2];
    meet_.arrive_and_wait();
    check(cudaGraphExecDestroy(ready)), check(cudaGraphDestroy(graph));
    check(cudaEventDestroy(begin)), check(cudaEventDestroy(end));
  }

  Ranks& ranks_;
  std::barrier<> meet_;
  std::vector<double> slowest_;
};

TEST(GpuRanksSpeed, Gathers) {
  constexpr std::size_t kMost = std::size_t{32} << 20;
  Ranks peers(default_ranks(), gpu_count(), 20s), host(default_ranks(), gpu_count(), 20s, true);
  ASSERT_TRUE(peers.ok() && host.ok());
  const auto count = static_cast<std::size_t>(peers.count());
  std::vector<DeviceMemory> memory;
  for (int r = 0; r < peers.count(); ++r) memory.push_back(peers.device(r).map(kMost * (count + 1), "a test").value());
  const auto gather = [&](Ranks& ranks, std::size_t bytes) {
    const auto columns = static_cast<int>(bytes / sizeof(float));
    Timer timer(ranks);
    return timer.time(
        [&, columns](int rank) {
          auto* from = reinterpret_cast<float*>(memory[static_cast<std::size_t>(rank)].data());
          all_gather(ranks.exec(rank), {.rows = 1,
                                        .from = contiguous_rows(from, columns),
                                        .to = contiguous_rows(from + columns, columns * ranks.count())});
        },
        bytes > (std::size_t{1} << 20) ? 2 : 10);
  };
  Timer timer(peers);
  std::printf("%d ranks on %d GPUs, us a gather in a graph of 100 (an empty kernel: %.2f us)\n", peers.count(),
              gpu_count(), timer.time([&](int rank) { cuda_ops::launch(peers.exec(rank), 1, Nothing{}); }, 10));
  std::printf("%12s %10s %10s %18s\n", "share", "peers", "GB/s in", "through the host");
  for (const std::size_t bytes : {4096UL, 8192UL, 32768UL, 65536UL, 65552UL, 131072UL, 524288UL, 4194304UL, kMost}) {
    const double us = gather(peers, bytes);
    const double through = bytes <= (std::size_t{1} << 20) ? gather(host, bytes) : 0.0;
    std::printf("%10zu B %7.2f us %10.1f %15.2f us\n", bytes, us,
                static_cast<double>(bytes * (count - 1)) / us / 1e3, through);
    RecordProperty("gather_" + std::to_string(bytes) + "_us", std::to_string(us));
    ASSERT_TRUE(peers.exchange().status().ok()) << peers.exchange().status().message();
    ASSERT_TRUE(host.exchange().status().ok()) << host.exchange().status().message();
  }
}

}  // namespace
}  // namespace sluice::gpu_ranks_speed_test
