// Used by weight_table.cc.
#include "model/weights/scale_tensors.h"

#include <fmt/format.h>

#include <string>

namespace sluice {
namespace {

// Names what the scales of an FP8 tensor cover instead of blocks; "" if that is unclear.
std::string_view other_scheme(const TensorView& weight, const TensorView& scales) {
  if (scales.elements() == 1) return "a single scale for the tensor, which is per-tensor FP8";
  const std::int64_t rows = weight.elements() / weight.row_length();
  if (scales.elements() == rows) return "a scale for each row, which is per-channel FP8";
  return "";
}

}  // namespace

Status check_scale_shape(const TensorView& weight, const WeightView& view, const TensorView& scales,
                         const std::vector<std::int64_t>& expected) {
  if (scales.shape == expected) return {};
  std::string text = fmt::format("tensor {} in {}: expected a scale for each block of {}x{}, shape {}, found {} {}",
                                 scales.name, scales.file, view.block_out, view.block_in, shape_text(expected),
                                 dtype_name(scales.dtype), shape_text(scales.shape));
  const std::string_view scheme = view.format == WeightFormat::kFp8 ? other_scheme(weight, scales) : "";
  if (!scheme.empty()) {
    text += fmt::format(": {}; use a checkpoint of the model in bf16, in FP8 with a scale for each block, or in GGUF",
                        scheme);
  }
  return invalid_argument(std::move(text));
}

bool are_half_scales(const TensorView& scales) {
  return scales.dtype == DType::kBF16 || scales.dtype == DType::kF16;
}

AlignedBytes widened_scales(const TensorView& scales) {
  AlignedBytes bytes(static_cast<std::size_t>(scales.elements()) * sizeof(float));
  read_rows(scales, 0, scales.elements() / scales.row_length(), reinterpret_cast<float*>(bytes.data()));
  return bytes;
}

}  // namespace sluice
