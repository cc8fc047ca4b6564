// NVIDIA GPUs as a backend. It exists also in programs that were built without CUDA: opening a device says
// so (absent.cc).
#include "kernels/device/backend.h"

#include <cstdlib>
#include <vector>

#include "kernels/cuda/device.h"
#include "kernels/cuda/fp8_layout.h"
#include "kernels/cuda/linear_layout.h"
#include "kernels/cuda/strip_check.h"
#include "kernels/cuda/strip_layout.h"

namespace sluice {
namespace {

Status check_sm90(Device& device) {
  auto& gpu = static_cast<CudaDevice&>(device);
  SLUICE_RETURN_IF_ERROR(gpu.prepare_sm90());
  SLUICE_RETURN_IF_ERROR(check_strip_kernels(gpu));
  SLUICE_RETURN_IF_ERROR(check_attention_kernels(gpu));
  return check_index_kernels(gpu);
}

Status check_sm90_fp8(Device& device) {
  SLUICE_RETURN_IF_ERROR(check_sm90(device));
  return check_fp8_kernels(static_cast<CudaDevice&>(device));
}

constexpr BackendProfile kProfiles[] = {
    {.name = "sm90",
     .compute_dtype = "fp8",
     .ops = cuda_sm90_op_table,
     .packing = sm90_fp8_linear_packing,
     .packing_name = "cuda, sm90, fp8",
     .self_test = check_sm90_fp8},
    {.name = "sm90",
     .ops = cuda_sm90_op_table,
     .packing = sm90_linear_packing,
     .packing_name = "cuda, sm90",
     .self_test = check_sm90},
    {.ops = cuda_op_table, .packing = cuda_linear_packing, .packing_name = "cuda"},
};

Result<std::unique_ptr<Device>> open(const DeviceOptions& options) {
  // A kernel that is loaded when it is first used waits for the GPU, which may wait for another rank that loads one,
  // too. The runtime reads this when the first device is opened.
  if (options.of_group) ::setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<CudaDevice> gpu, open_cuda_device(options.number));
  gpu->start_as_graphs(options.graphs);
  return std::unique_ptr<Device>(std::move(gpu));
}

Result<std::unique_ptr<Exchange>> connect(std::span<Device* const> ranks, std::chrono::milliseconds limit) {
  std::vector<CudaDevice*> gpus;
  for (Device* rank : ranks) gpus.push_back(static_cast<CudaDevice*>(rank));
  return connect_cuda_devices(gpus, limit);
}

}  // namespace

constinit const Backend cuda_backend{.name = "cuda",
                                     .machines = "NVIDIA's H100 and H200",
                                     .profiles = kProfiles,
                                     .numbered = true,
                                     .is_present = has_cuda_device,
                                     .open = open,
                                     .connect = connect};

}  // namespace sluice
