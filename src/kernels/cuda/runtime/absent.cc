// The CUDA device in a program that was built without CUDA: its functions only say so.
#include "base/check.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/strip_check.h"

namespace sluice {

Result<std::unique_ptr<CudaDevice>> open_cuda_device(int) {
  return unavailable(
      "--device cuda: this program was built without CUDA; build it with `./run build --cuda`, or with CMake's "
      "-DSLUICE_CUDA=ON where nvcc 12.8 or later is installed");
}

bool has_cuda_device() {
  return false;
}

Result<std::unique_ptr<Exchange>> connect_cuda_devices(std::span<CudaDevice* const>, std::chrono::milliseconds) {
  return internal_error("nobody has a CUDA device here");
}

const OpTable& cuda_op_table() {
  SLUICE_CHECK(false, "nobody has a CUDA device here");
  return cpu_op_table();
}

const OpTable& cuda_sm90_op_table() {
  return cuda_op_table();
}

Status check_strip_kernels(CudaDevice&) {
  return internal_error("nobody has a CUDA device here");
}

Status check_fp8_kernels(CudaDevice& gpu) {
  return check_strip_kernels(gpu);
}

Status check_attention_kernels(CudaDevice& gpu) {
  return check_strip_kernels(gpu);
}

Status check_index_kernels(CudaDevice& gpu) {
  return check_strip_kernels(gpu);
}

}  // namespace sluice
