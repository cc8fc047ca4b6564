// When the kernels of a device ran, according to its tracer, joined with the kernels that the host enqueued.
//
// A tracer reports names and times. The host knows the stage of a step (base/threads/pool_meter.h) that each kernel was
// enqueued for. Kernels of one queue start in the order in which they were enqueued, so one list matches the other.
// Kernels that only the tracer has (small moves of the device's own) count for the stage kRest. Thread safety: plain
// values and pure functions.
// Used by kernels/cuda/device.h, kernels/cuda/runtime/kernel_tracer.h, src/bench/speed_case.h and
// src/bench/step_kernels.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/threads/pool_meter.h"

namespace sluice {

struct KernelTime {
  std::string name;  // as the compiler has it
  std::uint64_t start_ns = 0, end_ns = 0;
  StepStage stage = StepStage::kRest;
};

struct EnqueuedKernel {
  std::string name;
  StepStage stage = StepStage::kRest;
};

// The records in the order of their starts, each with the stage of its kernel.
std::vector<KernelTime> join_kernels(std::vector<KernelTime> records, const std::vector<EnqueuedKernel>& enqueued);

// "TileProducts<0, 1, 128, 1>" from the name of a kernel of launch() (kernels/cuda/launch.h), or of any other.
std::string short_kernel_name(const std::string& name);

}  // namespace sluice
