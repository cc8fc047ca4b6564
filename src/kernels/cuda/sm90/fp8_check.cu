// Used by kernels/cuda/sm90.
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/sm90/fp8_products.h"
#include "kernels/cuda/strip_check.h"

namespace sluice {
namespace {

constexpr int kOut = 512, kIn = 2048, kRows = 192, kRow = 77;  // the row that is compared
constexpr WeightView kView{.format = WeightFormat::kFp8,
                           .out = kOut,
                           .in = kIn,
                           .scale_format = ScaleFormat::kF32,
                           .block_out = 128,
                           .scale_columns = kIn / 128};

class Fp8Check {
 public:
  explicit Fp8Check(CudaDevice& gpu) : gpu_(gpu), exec_{.device = &gpu} {}

  Status run() {
    std::mt19937 random(91);
    const Fp8Linear weight(kView);
    std::vector<std::byte> packed(weight.bytes());
    for (std::size_t at = 0; at < weight.scales_at; ++at) packed[at] = static_cast<std::byte>(random() & 0xBFU);
    for (std::size_t at = weight.scales_at; at < packed.size(); at += 4) {
      const float scale = 0x1p-6F * static_cast<float>(1 + random() % 100);
      std::memcpy(&packed[at], &scale, sizeof scale);
    }
    std::vector<float> x(std::size_t{kRows} * kIn);
    for (float& value : x) value = static_cast<float>(static_cast<int>(random() % 2001) - 1000);
    SLUICE_ASSIGN_OR_RETURN(const DeviceMemory w, put(packed));
    SLUICE_ASSIGN_OR_RETURN(const DeviceMemory rows, put(x));
    SLUICE_ASSIGN_OR_RETURN(const DeviceMemory y, gpu_.map(std::size_t{kRows} * kOut * sizeof(float), kWhat));
    product_ = {.weight = weight, .data = w.data(), .x = {}, .y = reinterpret_cast<float*>(y.data()), .ldy = kOut};
    x_ = reinterpret_cast<const float*>(rows.data());
    return compare();
  }

 private:
  static constexpr const char* kWhat = "the check of sm90";

  template <class T>
  Result<DeviceMemory> put(const std::vector<T>& values) {
    const std::size_t bytes = values.size() * sizeof(T);
    SLUICE_ASSIGN_OR_RETURN(DeviceMemory memory, gpu_.map(bytes, kWhat));
    gpu_.upload({memory.data(), reinterpret_cast<const std::byte*>(values.data()), bytes});
    return Result<DeviceMemory>(std::move(memory));
  }

  // Computes row kRow among `rows` rows from `first` on.
  Result<std::vector<std::uint32_t>> row(int first, cuda_sm90::Fp8Launch launch) {
    const int padded = (launch.rows + 127) / 128 * 128;
    const std::size_t values = static_cast<std::size_t>(padded) * (kIn / 128);
    std::byte* memory = cuda_ops::workspace(exec_, values * 132);
    product_.x = {memory, reinterpret_cast<float*>(memory + values * 128), padded};
    make_fp8_rows(exec_, launch.rows, {.x = x_ + std::ptrdiff_t{first} * kIn, .ldx = kIn, .in = kIn}, product_.x);
    multiply_fp8(exec_, launch, {&product_, 1});
    std::vector<std::uint32_t> bits(kOut);
    gpu_.download({reinterpret_cast<std::byte*>(bits.data()),
                   reinterpret_cast<const std::byte*>(product_.y + std::ptrdiff_t{kRow - first} * kOut),
                   kOut * sizeof(float)});
    gpu_.wait();
    SLUICE_RETURN_IF_ERROR(gpu_.status());
    return bits;
  }

  Status compare() {
    SLUICE_ASSIGN_OR_RETURN(const auto alone, row(kRow, {.rows = 1, .kernel_rows = 8, .cluster = 1}));
    for (const int kernel : {8, 16, 32, 64, cuda_sm90::kFp8TileRows}) {
      for (const int cluster : {1, 2, 4, 8}) {
        if (kernel == cuda_sm90::kFp8TileRows && cluster > 1) continue;
        const int count = kernel == cuda_sm90::kFp8TileRows ? kRows : kernel, first = count == kRows ? 0 : kRow - 5;
        SLUICE_ASSIGN_OR_RETURN(const auto bits,
                                row(first, {.rows = count, .kernel_rows = kernel, .cluster = cluster}));
        if (bits == alone) continue;
        return internal_error(std::string("--profile sm90 --compute-dtype fp8: on ") + gpu_.gpu() +
                              " the product of one row differs from that of the same row among " +
                              std::to_string(count) +
                              ", where both must have the same bits; choose another profile, and report it with the "
                              "version of the driver");
      }
    }
    return {};
  }

  CudaDevice& gpu_;
  Exec exec_;
  cuda_sm90::Fp8Product product_;
  const float* x_ = nullptr;
};

}  // namespace

Status check_fp8_kernels(CudaDevice& gpu) {
  return Fp8Check(gpu).run();
}

}  // namespace sluice
