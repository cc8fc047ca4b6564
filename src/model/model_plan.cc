#include "model/model_plan.h"

#include <set>
#include <utility>

namespace sluice {
namespace {

constexpr std::int64_t kMxfp4Block = 32;

DType stored_dtype(Storage storage) {
  switch (storage) {
    case Storage::kFp8:
      return DType::kF8E4M3;
    case Storage::kMxfp4:
      return DType::kI8;
    case Storage::kBf16:
      return DType::kBF16;
    case Storage::kF32:
      return DType::kF32;
    case Storage::kI64:
      return DType::kI64;
  }
  return DType::kF32;
}

std::int64_t blocks(std::int64_t values, std::int64_t block) {
  return (values + block - 1) / block;
}

PlannedTensor plan_weight(const WeightSpec& spec) {
  const TensorName& official = spec.names.front();
  PlannedTensor tensor;
  tensor.name = official.name;
  tensor.dtype = stored_dtype(spec.storage);
  tensor.storage = spec.storage;
  tensor.shape = official.shape;
  tensor.row_values = official.shape.back();
  tensor.id_limit = spec.id_limit;
  tensor.group = spec.group;
  if (spec.storage != Storage::kI64) {
    tensor.parameters = 1;
    for (const std::int64_t size : official.shape) tensor.parameters *= size;
  }
  if (spec.storage == Storage::kMxfp4) tensor.shape.back() /= 2;
  return tensor;
}

PlannedTensor plan_scales(const WeightSpec& spec, const PlannedTensor& weight, const QuantizationConfig& quantization) {
  const bool fp4 = spec.storage == Storage::kMxfp4;
  PlannedTensor scales;
  scales.name = scale_names(weight.name).front();
  scales.scales_of = weight.name;
  scales.storage = spec.storage;
  scales.dtype = fp4 || quantization.scale_fmt == "ue8m0" ? DType::kF8E8M0 : DType::kF32;
  scales.shape = spec.names.front().shape;
  std::int64_t& rows = scales.shape[scales.shape.size() - 2];
  rows = blocks(rows, fp4 ? 1 : quantization.block_rows);
  scales.shape.back() = blocks(scales.shape.back(), fp4 ? kMxfp4Block : quantization.block_columns);
  scales.row_values = weight.row_values;
  scales.group = weight.group;
  return scales;
}

}  // namespace

std::vector<PlannedTensor> planned_tensors(const WeightTable& table, const QuantizationConfig& quantization) {
  std::vector<PlannedTensor> tensors;
  std::set<std::string> seen;  // a tensor that is bound in parts has several specs
  for (const WeightSpec& spec : table) {
    if (!seen.insert(spec.names.front().name).second) continue;
    tensors.push_back(plan_weight(spec));
    if (spec.storage == Storage::kFp8 || spec.storage == Storage::kMxfp4) {
      tensors.push_back(plan_scales(spec, tensors.back(), quantization));
    }
  }
  return tensors;
}

}  // namespace sluice
