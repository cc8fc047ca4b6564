// The choice of the device that a model runs on (--device): its memory holds weights, cache and tensors, and it has the
// table of its ops.
// Used by cli/commands and engine/runner.
#pragma once

#include <memory>

#include "kernels/device/device.h"
#include "kernels/device/device_group.h"
#include "kernels/device/exec.h"
#include "kernels/ops/ops.h"
#include "sluice/engine.h"
#include "sluice/status.h"

namespace sluice {

struct DeviceChoice {
  std::unique_ptr<Device> owned;         // null: the CPU
  const OpTable* ops = nullptr;          // null: the CPU's
  DeviceGroup* group = nullptr;          // `owned`, of several ranks; null: there is one
  const KernelTable* kernels = nullptr;  // decides how its ops want weights packed; null: as --isa's ops

  Device& device() const { return owned != nullptr ? *owned : cpu_device(); }
};

// True if a step may still be running when Runner::begin() has returned. The CPU is done by then.
bool computes_later(const Exec& exec);
// The instruction set of its kernels (kernels/device/isa.h), or "none".
const char* isa_name(const Exec& exec);

// Opens a device, or those of a group, by a backend's name (kernels/device/backend.h); auto is the first device that is
// present and opens, else the CPU. The backend defines the meaning of the profile on it, and checks it here. Errors:
// kInvalidArgument for another name, and for a device that does not have the profile; and the backend's own.
Result<DeviceChoice> choose_device(const MachineOptions& options, const NumericsOptions& numerics);

}  // namespace sluice
