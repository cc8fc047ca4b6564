#include "engine/runner/device_choice.h"

#include <fmt/format.h>

#include <charconv>
#include <random>
#include <string_view>

#include "base/log.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/fp8_layout.h"
#include "kernels/cuda/linear_layout.h"
#include "kernels/cuda/strip_check.h"
#include "kernels/cuda/strip_layout.h"
#include "kernels/device/emulated_device.h"
#include "kernels/ops/linear.h"
#include "model/numerics.h"

namespace sluice {
namespace {

Result<DeviceChoice> choose_gpu(const MachineOptions& options, int number) {
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<CudaDevice> gpu, open_cuda_device(number));
  gpu->start_as_graphs(options.cuda_graphs);
  return DeviceChoice{
      .owned = std::move(gpu), .ops = &cuda_op_table(), .kernels = &kernels_that_pack("cuda", cuda_linear_packing())};
}

Result<DeviceChoice> choose_any(const MachineOptions& options) {
  const std::string_view name = options.device;
  constexpr std::string_view kNumbered = "cuda:";
  if (name == "cpu") return DeviceChoice{};
  if (name == "emulated") {
    return DeviceChoice{.owned = std::make_unique<EmulatedDevice>(std::random_device()()), .ops = &emulated_op_table()};
  }
  if (name == "auto") {
    if (!has_cuda_device()) return DeviceChoice{};
    auto gpu = choose_gpu(options, 0);
    if (gpu.ok()) return gpu;
    log_warning("--device auto: the CPU, as {}", gpu.status().message());
    return DeviceChoice{};
  }
  if (name == "cuda") return choose_gpu(options, 0);
  if (name.starts_with(kNumbered)) {
    const std::string_view digits = name.substr(kNumbered.size());
    int number = -1;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error == std::errc() && end == digits.data() + digits.size() && number >= 0) return choose_gpu(options, number);
  }
  return invalid_argument(fmt::format("--device: expected auto, cpu, cuda, cuda:N or emulated, found '{}'", name));
}

}  // namespace

Result<DeviceChoice> choose_device(const MachineOptions& options, const NumericsOptions& numerics) {
  const std::string_view profile = numerics.profile;
  SLUICE_ASSIGN_OR_RETURN(DeviceChoice choice, choose_any(options));
  if (profile == kTilesProfile && dynamic_cast<CudaDevice*>(choice.owned.get()) != nullptr) {
    return invalid_argument(
        fmt::format("--profile tiles: its kernels are those of CPUs, found --device {}; give --device cpu, or choose "
                    "another profile",
                    options.device));
  }
  if (profile != kSm90Profile) return choice;
  auto* gpu = dynamic_cast<CudaDevice*>(choice.owned.get());
  if (gpu == nullptr) {
    return invalid_argument(
        fmt::format("--profile sm90: its kernels are those of NVIDIA's H100 and H200, found --device {}{}; give "
                    "--device cuda on a machine with such a GPU, or choose another profile",
                    options.device, options.device == "auto" ? ", which is the CPU here" : ""));
  }
  SLUICE_RETURN_IF_ERROR(gpu->prepare_sm90());
  choice.ops = &cuda_sm90_op_table();
  const bool fp8 = numerics.compute_dtype == "fp8";
  choice.kernels = fp8 ? &kernels_that_pack("cuda, sm90, fp8", sm90_fp8_linear_packing())
                       : &kernels_that_pack("cuda, sm90", sm90_linear_packing());
  SLUICE_RETURN_IF_ERROR(check_strip_kernels(*gpu));
  if (fp8) SLUICE_RETURN_IF_ERROR(check_fp8_kernels(*gpu));
  SLUICE_RETURN_IF_ERROR(check_attention_kernels(*gpu));
  SLUICE_RETURN_IF_ERROR(check_index_kernels(*gpu));
  return choice;
}

}  // namespace sluice
