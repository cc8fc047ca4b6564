// Which device a model runs on (--device): where its weights, cache and tensors lie, and the table of its ops.
#pragma once

#include <memory>

#include "kernels/device/device.h"
#include "kernels/device/exec.h"
#include "kernels/ops/ops.h"
#include "sluice/engine.h"
#include "sluice/status.h"

namespace sluice {

struct DeviceChoice {
  std::unique_ptr<Device> owned;         // null: the CPU
  const OpTable* ops = nullptr;          // null: the CPU's
  const KernelTable* kernels = nullptr;  // how its ops want weights packed; null: as those of --isa do

  Device& device() const { return owned != nullptr ? *owned : cpu_device(); }
};

// Of cpu, emulated, cuda, cuda:N, and auto: the first GPU that can be used, else the CPU. The profile sm90 has ops of
// its own, which are compared with each other here, and with --compute-dtype fp8 another packing of weights. Errors:
// kInvalidArgument for another name, and for a device that has not the profile; those of open_cuda_device() and
// CudaDevice::prepare_sm90().
Result<DeviceChoice> choose_device(const MachineOptions& options, const NumericsOptions& numerics);

}  // namespace sluice
