// Backend: a kind of device that models run on (--device), as a line of constants: how to open such a device, and what
// each profile means there. Nothing above src/kernels knows any backend by name. Thread safety: constants.
// Used by engine/runner/device_choice.cc and kernels/cuda/runtime/backend.cc.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string_view>

#include "kernels/device/device.h"
#include "kernels/device/exchange.h"
#include "kernels/ops/linear.h"
#include "kernels/ops/ops.h"
#include "sluice/status.h"

namespace sluice {

struct BackendProfile {
  // The profile of --profile that this line is for; empty: all profiles that no backend names, the portable ones.
  std::string_view name = {};
  std::string_view compute_dtype = {};  // from --compute-dtype; empty: all that no line before it names
  const OpTable& (*ops)() = nullptr;    // null: the CPU's
  // The packing that these ops want, and its name; null: the packing of the kernels of --isa.
  const LinearPacking& (*packing)() = nullptr;
  const char* packing_name = nullptr;
  // Checks, before any op, that the device has the profile and that its kernels agree with each other; null: no check
  // is needed.
  Status (*self_test)(Device& device) = nullptr;
};

struct DeviceOptions {
  int number = 0;         // the number of the device, if there are several
  bool graphs = true;     // --cuda-graphs
  bool of_group = false;  // it is one of several ranks: kernels of one may wait for another's
};

struct Backend {
  std::string_view name;      // the name in --device
  std::string_view machines;  // the machines that its kernels run on, for messages: "CPUs"
  std::span<const BackendProfile> profiles;
  bool numbered = false;  // NAME:N is a name, too
  // Returns in microseconds whether open() may succeed; null: --device auto skips the backend.
  bool (*is_present)() = nullptr;
  // Opens a device; gives null if there is nothing to open: the CPU itself (cpu_device()).
  Result<std::unique_ptr<Device>> (*open)(const DeviceOptions& options);
  // Connects opened devices, in this order, as the ranks of a group; they must outlive the exchange. `limit`: how long
  // a rank waits for another. Null: there are no groups of such devices.
  Result<std::unique_ptr<Exchange>> (*connect)(std::span<Device* const> ranks,
                                               std::chrono::milliseconds limit) = nullptr;
};

// All backends, in the order of messages and of --device auto. A new backend adds its name to both lines. Only code
// that links all of them may use the list, as src/engine does.
extern const Backend cpu_backend, cuda_backend, emulated_backend;
inline constexpr const Backend* kBackends[] = {&cpu_backend, &cuda_backend, &emulated_backend};

}  // namespace sluice
