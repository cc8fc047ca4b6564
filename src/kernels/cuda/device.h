// CudaDevice: an NVIDIA GPU. Its queue is one stream. Host bytes go through pinned staging, so that an upload or a
// download is enqueued without waiting. Marks are events.
//
// Programs are built with or without CUDA (SLUICE_CUDA in CMake); without it open_cuda_device() says so. The runtime is
// linked statically and looks for the driver when it is first used, so the program starts on machines without a GPU
// too.
//
// Errors: an error of the GPU is kept (Device::status()) and makes every later call do nothing; downloads then give
// 0xFF, NaN as a float and -1 as an id. Thread safety: as for Device.
// Used by kernels/cuda, kernels/cuda/runtime, kernels/cuda/sm90 and src/bench.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/cuda/kernel_launch.h"
#include "kernels/device/device.h"
#include "kernels/device/exchange.h"
#include "kernels/ops/kernel_times.h"
#include "kernels/ops/ops.h"
#include "sluice/status.h"

namespace sluice {

class CudaDevice : public Device {
 public:
  virtual const std::string& gpu() const = 0;  // "GPU 0 (NVIDIA H100 80GB HBM3)", for messages
  virtual int number() const = 0;              // its number among the GPUs that the driver shows
  virtual std::size_t total_bytes() const = 0;
  virtual void* stream() = 0;          // a cudaStream_t, on the calling thread's current device
  virtual std::byte* workspace() = 0;  // at least kCudaWorkspaceBytes (kernels/cuda/launch.h)
  virtual std::size_t workspace_bytes() const = 0;
  // Checks that the kernels of the profile sm90 run here, and reserves the workspace that they need; call it before any
  // op. kUnavailable: another compute capability than 9.0; kResourceExhausted.
  virtual Status prepare_sm90() = 0;
  virtual int processors() const = 0;  // the number of its multiprocessors
  virtual void enqueue(const KernelLaunch& launch, StepStage stage) = 0;
  void enqueue(const KernelLaunch& launch) { enqueue(launch, StepStage::kRest); }
  // Record the times of the kernels that launch() enqueues between the two calls. Errors say what is missing. Existing
  // graphs are not traced, so they are made anew.
  virtual Status begin_kernel_times() = 0;
  virtual std::vector<KernelTime> end_kernel_times() = 0;
  virtual bool starts_beside() const = 0;       // true if the next kernel starts early (kernels/cuda/launch.h)
  virtual const void* last_kernel() const = 0;  // the kernel enqueued last; null: other work was enqueued last
  // Allows or forbids to start batches as graphs (kernels/cuda/runtime/launch_graphs.h), which changes no bit.
  virtual void start_as_graphs(bool graphs) = 0;
  virtual std::size_t graph_starts() const = 0;  // batches that were started as graphs
  // Makes the device a rank of a group, which `failed` notifies once that the device has failed. Null: it is alone
  // again.
  virtual void join(std::function<void(const Status& why)> failed) = 0;
  // For tests: with false no kernel starts early (kernels/cuda/launch.h).
  virtual void start_kernels_early(bool early) = 0;
  // For tests: enqueues a kernel that fails.
  virtual void plant_fault() = 0;
};

// GPU `number` of those that the driver shows (CUDA_VISIBLE_DEVICES). Errors say what is missing (kUnavailable: CUDA in
// this build, a driver, a newer driver, a GPU, a GPU of compute capability 8.0), or how many GPUs there are
// (kInvalidArgument).
Result<std::unique_ptr<CudaDevice>> open_cuda_device(int number);

// True if open_cuda_device(0) may succeed; takes microseconds if there is no driver.
bool has_cuda_device();

// Connects devices as ranks (kernels/cuda/runtime/peer_exchange.h).
Result<std::unique_ptr<Exchange>> connect_cuda_devices(std::span<CudaDevice* const> ranks,
                                                       std::chrono::milliseconds limit);

// Kernels in the orders of the op headers: the bits of the CPU.
const OpTable& cuda_op_table();
// The ops of the profile sm90, for weights packed by sm90_linear_packing() (kernels/cuda/strip_layout.h).
const OpTable& cuda_sm90_op_table();

}  // namespace sluice
