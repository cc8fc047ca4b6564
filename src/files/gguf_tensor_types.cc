#include "files/gguf_tensor_types.h"

#include <fmt/format.h>

#include <algorithm>

namespace sluice {
namespace {

struct TensorType {
  std::uint32_t code;
  DType dtype;
};
constexpr TensorType kTensorTypes[] = {
    {0, DType::kF32},  {1, DType::kF16},   {2, DType::kQ4_0},   {3, DType::kQ4_1},
    {8, DType::kQ8_0}, {12, DType::kQ4_K}, {13, DType::kQ5_K},  {14, DType::kQ6_K},
    {26, DType::kI32}, {30, DType::kBF16}, {39, DType::kMXFP4},
};

}  // namespace

std::optional<DType> gguf_tensor_dtype(std::uint32_t code) {
  const auto* known = std::ranges::find(kTensorTypes, code, &TensorType::code);
  return known == std::end(kTensorTypes) ? std::nullopt : std::optional(known->dtype);
}

std::optional<std::uint32_t> gguf_tensor_code(DType dtype) {
  const auto* known = std::ranges::find(kTensorTypes, dtype, &TensorType::dtype);
  return known == std::end(kTensorTypes) ? std::nullopt : std::optional(known->code);
}

std::string gguf_tensor_type_names() {
  std::string names;
  for (const TensorType& type : kTensorTypes) {
    names += fmt::format("{}{} ({})", names.empty() ? "" : ", ", dtype_name(type.dtype), type.code);
  }
  return names;
}

}  // namespace sluice
