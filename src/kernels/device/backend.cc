// Used by engine/runner/device_choice.cc and kernels/cuda/runtime/backend.cc.
#include "kernels/device/backend.h"

#include <random>

#include "kernels/device/emulated_device.h"
#include "kernels/device/host_exchange.h"

namespace sluice {
namespace {

constexpr BackendProfile kCpuProfiles[] = {{}, {.name = "amx"}};
constexpr BackendProfile kEmulatedProfiles[] = {{.ops = emulated_op_table}, {.name = "amx", .ops = emulated_op_table}};

Result<std::unique_ptr<Device>> open_none(const DeviceOptions& /*options*/) {
  return std::unique_ptr<Device>();
}

Result<std::unique_ptr<Device>> open_emulated(const DeviceOptions& /*options*/) {
  return std::unique_ptr<Device>(std::make_unique<EmulatedDevice>(std::random_device()()));
}

Result<std::unique_ptr<Exchange>> connect_on_host(std::span<Device* const> ranks, std::chrono::milliseconds limit) {
  return std::unique_ptr<Exchange>(std::make_unique<HostExchange>(static_cast<int>(ranks.size()), limit));
}

}  // namespace

constinit const Backend cpu_backend{.name = "cpu", .machines = "CPUs", .profiles = kCpuProfiles, .open = open_none};
constinit const Backend emulated_backend{.name = "emulated",
                                         .machines = "CPUs",
                                         .profiles = kEmulatedProfiles,
                                         .open = open_emulated,
                                         .connect = connect_on_host};

}  // namespace sluice
