// Ranks: a group of GPUs of this machine, or of ranks that share them, for tests; each rank has a thread.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "gpu_testing.h"
#include "kernels/cuda/runtime/peer_exchange.h"

namespace sluice {

inline int gpu_count() {
  int gpus = 0;
  return cudaGetDeviceCount(&gpus) == cudaSuccess ? gpus : 0;
}

class Ranks {
 public:
  // Rank r is on GPU r of `gpus`, in turn.
  Ranks(int count, int gpus, std::chrono::milliseconds limit, bool through_host = false) {
    for (int r = 0; r < count; ++r) {
      auto opened = open_cuda_device(r % gpus);
      if (!opened.ok()) {
        ADD_FAILURE() << opened.status().message();
        return;
      }
      opened.value()->start_kernels_early(gpu_test_options().early);
      devices_.push_back(std::move(opened).value());
      pointers_.push_back(devices_.back().get());
    }
    auto connected = PeerExchange::connect(pointers_, limit, through_host);
    if (connected.ok()) {
      exchange_ = std::move(connected).value();
    } else {
      ADD_FAILURE() << connected.status().message();
    }
  }
  bool ok() const { return exchange_ != nullptr; }
  int count() const { return static_cast<int>(devices_.size()); }
  CudaDevice& device(int rank) { return *devices_[static_cast<std::size_t>(rank)]; }
  PeerExchange& exchange() { return *exchange_; }
  Exec exec(int rank) { return {nullptr, nullptr, &cuda_op_table(), &device(rank), {rank, count(), exchange_.get()}}; }
  // Calls `work` for all ranks at once, in a thread each.
  void each(const std::function<void(int rank)>& work) const {
    std::vector<std::thread> threads;
    for (int r = 0; r < count(); ++r) threads.emplace_back(work, r);
    for (std::thread& thread : threads) thread.join();
  }

 private:
  std::vector<std::unique_ptr<CudaDevice>> devices_;
  std::vector<CudaDevice*> pointers_;
  std::unique_ptr<PeerExchange> exchange_;
};

// Returns as many ranks as GPUs, two at least: they share one if there is only one.
inline int default_ranks() {
  static const int ranks = [] {
    const int gpus = gpu_count();
    if (gpus < 2) std::printf("ranks: found %d GPU, expected 2: two ranks share it\n", gpus);
    return std::clamp(gpus, 2, kMostRanks);
  }();
  return ranks;
}

}  // namespace sluice
