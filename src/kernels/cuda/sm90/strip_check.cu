// Used by kernels/cuda/sm90.
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/sm90/strip_products.h"
#include "kernels/cuda/strip_check.h"

namespace sluice {
namespace {

using cuda_sm90::StripRows;

constexpr int kOut = 256, kIn = 2048, kRows = 64, kRow = 37;  // the row that is compared
constexpr struct {
  const char* name;
  WeightView view;
} kWeights[] = {
    {"bf16", {.format = WeightFormat::kBf16, .out = kOut, .in = kIn}},
    {"FP8 (e8m0 scales)",
     {.format = WeightFormat::kFp8, .out = kOut, .in = kIn, .scale_format = ScaleFormat::kE8m0, .block_out = 128}},
    {"FP8 (f32 scales)",
     {.format = WeightFormat::kFp8, .out = kOut, .in = kIn, .scale_format = ScaleFormat::kF32, .block_out = 128}},
    {"MXFP4",
     {.format = WeightFormat::kMxfp4, .out = kOut, .in = kIn, .scale_format = ScaleFormat::kE8m0, .block_in = 32}},
};

// Makes packed bytes of finite weights of any size near 1.
std::vector<std::byte> random_weights(const StripLinear& weight, std::mt19937& random) {
  std::vector<std::byte> bytes(weight.bytes());
  const auto put = [&](std::size_t at, std::uint32_t word) { std::memcpy(bytes.data() + at, &word, sizeof word); };
  for (std::size_t at = 0; at < weight.scales_at; at += 4) {
    std::uint32_t word = static_cast<std::uint32_t>(random());
    if (weight.kind == StripKind::kBf16) word = (word & 0x81FF81FFU) | 0x3E003E00U;
    if (weight.kind == StripKind::kFp8 || weight.kind == StripKind::kFp8Scaled) word &= 0xBFBFBFBFU;
    put(at, word);
  }
  for (std::size_t at = weight.scales_at; at < bytes.size(); at += 4) {
    const auto word = static_cast<std::uint32_t>(random());
    put(at,
        weight.kind == StripKind::kFp8Scaled ? (word & 0x00FFFFFFU) | 0x3F000000U : (word & 0x07070707U) | 0xF0F0F0F0U);
  }
  return bytes;
}

std::vector<std::uint32_t> random_rows(std::mt19937& random) {
  std::vector<std::uint32_t> pairs(std::size_t{kRows} * kIn / 2);
  for (std::uint32_t& pair : pairs) pair = (static_cast<std::uint32_t>(random()) & 0x81FF81FFU) | 0x3E003E00U;
  return pairs;
}

class StripCheck {
 public:
  explicit StripCheck(CudaDevice& gpu) : gpu_(gpu), exec_{.device = &gpu} {}

  Status run() {
    std::mt19937 random(190);
    SLUICE_ASSIGN_OR_RETURN(DeviceMemory x, put(random_rows(random)));
    for (const auto& [name, view] : kWeights) {
      const StripLinear weight(view);
      SLUICE_ASSIGN_OR_RETURN(DeviceMemory data, put(random_weights(weight, random)));
      SLUICE_ASSIGN_OR_RETURN(DeviceMemory y, gpu_.map(std::size_t{kRows} * kOut * sizeof(float), "the check of sm90"));
      const cuda_sm90::StripProduct product{.weight = weight,
                                            .data = data.data(),
                                            .x = reinterpret_cast<const std::uint16_t*>(x.data()),
                                            .ldx = kIn,
                                            .y = reinterpret_cast<float*>(y.data()),
                                            .ldy = kOut};
      SLUICE_RETURN_IF_ERROR(compare(name, product));
    }
    return {};
  }

 private:
  template <class T>
  Result<DeviceMemory> put(const std::vector<T>& values) {
    const std::size_t bytes = values.size() * sizeof(T);
    SLUICE_ASSIGN_OR_RETURN(DeviceMemory memory, gpu_.map(bytes, "the check of sm90"));
    gpu_.upload({memory.data(), reinterpret_cast<const std::byte*>(values.data()), bytes});
    return Result<DeviceMemory>(std::move(memory));
  }

  // Computes row kRow of `rows` rows.
  Result<std::vector<std::uint32_t>> row(cuda_sm90::StripProduct product, int first, StripRows rows) {
    product.x += std::ptrdiff_t{first} * kIn;
    multiply_strips(exec_, rows, {&product, 1});
    std::vector<std::uint32_t> bits(kOut);
    gpu_.download({reinterpret_cast<std::byte*>(bits.data()),
                   reinterpret_cast<const std::byte*>(product.y + std::ptrdiff_t{kRow - first} * kOut),
                   kOut * sizeof(float)});
    gpu_.wait();
    SLUICE_RETURN_IF_ERROR(gpu_.status());
    return bits;
  }

  Status compare(const char* name, const cuda_sm90::StripProduct& product) {
    SLUICE_ASSIGN_OR_RETURN(const auto alone, row(product, kRow, {.rows = 1, .kernel_rows = cuda_sm90::kFewRows}));
    for (const int kernel : {cuda_sm90::kFewRows, cuda_sm90::kSomeRows, cuda_sm90::kManyRows, cuda_sm90::kTileRows}) {
      for (const auto cut :
           {StripRows::Cut::kNarrow, StripRows::Cut::kSegments, StripRows::Cut::kPlain, StripRows::Cut::kWide}) {
        const int first = kernel >= cuda_sm90::kManyRows ? 0 : kRow - 5;
        const StripRows rows{
            .rows = std::min(kernel, kRows - first), .kernel_rows = kernel, .cut = cut, .workspace_used = 0};
        SLUICE_ASSIGN_OR_RETURN(const auto bits, row(product, first, rows));
        if (bits != alone) {
          return internal_error(std::string("--profile sm90: on ") + gpu_.gpu() + " the product of one row with " +
                                name + " weights differs from that of the same row among " + std::to_string(rows.rows) +
                                ", where both must have the same bits; choose another profile, and report it with the "
                                "version of the driver");
        }
      }
    }
    return {};
  }

  CudaDevice& gpu_;
  Exec exec_;
};

}  // namespace

Status check_strip_kernels(CudaDevice& gpu) {
  return StripCheck(gpu).run();
}

}  // namespace sluice
