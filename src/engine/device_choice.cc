#include "engine/device_choice.h"

#include <fmt/format.h>

#include <charconv>
#include <random>
#include <string_view>

#include "base/log.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/linear_layout.h"
#include "kernels/emulated_device.h"
#include "kernels/linear.h"

namespace sluice {
namespace {

Result<DeviceChoice> choose_gpu(int number) {
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<CudaDevice> gpu, open_cuda_device(number));
  return DeviceChoice{
      .owned = std::move(gpu), .ops = &cuda_op_table(), .kernels = &kernels_that_pack("cuda", cuda_linear_packing())};
}

}  // namespace

Result<DeviceChoice> choose_device(const MachineOptions& options) {
  const std::string_view name = options.device;
  constexpr std::string_view kNumbered = "cuda:";
  if (name == "cpu") return DeviceChoice{};
  if (name == "emulated") {
    return DeviceChoice{.owned = std::make_unique<EmulatedDevice>(std::random_device()()), .ops = &emulated_op_table()};
  }
  if (name == "auto") {
    if (!has_cuda_device()) return DeviceChoice{};
    auto gpu = choose_gpu(0);
    if (gpu.ok()) return gpu;
    log_warning("--device auto: the CPU, as {}", gpu.status().message());
    return DeviceChoice{};
  }
  if (name == "cuda") return choose_gpu(0);
  if (name.starts_with(kNumbered)) {
    const std::string_view digits = name.substr(kNumbered.size());
    int number = -1;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error == std::errc() && end == digits.data() + digits.size() && number >= 0) return choose_gpu(number);
  }
  return invalid_argument(fmt::format("--device: expected auto, cpu, cuda, cuda:N or emulated, found '{}'", name));
}

}  // namespace sluice
