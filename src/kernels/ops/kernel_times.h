// When the kernels of a device ran, told by its tracer, beside what the host enqueued.
//
// A tracer tells names and times; the host knows the stage of a step (base/threads/pool_meter.h) that each kernel was
// enqueued for. Kernels of one queue start in the order in which they were enqueued, so both are one list; what only
// the tracer has (small moves of the device's own) counts for the rest. Thread safety: plain values and pure functions.
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

// The records in the order of their starts, each with the stage of the kernel it is of.
std::vector<KernelTime> join_kernels(std::vector<KernelTime> records, const std::vector<EnqueuedKernel>& enqueued);

// "TileProducts<0, 1, 128, 1>" of the name of a kernel of launch() (kernels/cuda/launch.h), or of any other.
std::string short_kernel_name(const std::string& name);

}  // namespace sluice
