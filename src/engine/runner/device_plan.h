// Estimates how much of a device's memory a model takes, from its config alone: for `sluice inspect --device`. Thread
// safety: plain values.
// Used by cli/commands/inspect_command.cc and runner.cc.
#pragma once

#include <cstddef>
#include <string>

#include "cache/memory_plan.h"
#include "kernels/ops/linear.h"
#include "model/model_plan.h"
#include "sluice/status.h"

namespace sluice {

// The bytes of a device's memory that are left for the driver and small things.
inline constexpr std::size_t kLeftOnDevice = std::size_t{512} << 20;

struct DevicePlan {
  std::size_t weights = 0;  // the official checkpoint's, in the layout of the device's kernels
  std::size_t steps = 0;    // the tensors of a step, rotary tables, logits
  std::size_t left = 0;     // for the driver and small things
  std::size_t besides() const { return weights + steps + left; }
};

DevicePlan plan_device(const ModelPlan& plan, const LinearPacking& packing, const MemoryRequest& request);

// Returns the plan as text, with the part of `free` bytes that is left for the cache. kResourceExhausted, with the
// numbers, if that is less than the cache of one sequence of one block.
Result<std::string> device_text(const DevicePlan& plan, const CacheLayout& layout, const MemoryRequest& request,
                                const std::string& device, std::size_t free);

}  // namespace sluice
