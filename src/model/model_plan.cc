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
  tensor.routed_expert = spec.routed_expert;
  if (spec.storage != Storage::kI64) {
    tensor.parameters = 1;
    for (const std::int64_t size : official.shape) tensor.parameters *= size;
  }
  if (spec.storage == Storage::kMxfp4) tensor.shape.back() /= 2;
  return tensor;
}

PlannedTensor plan_scales(const WeightSpec& spec, const PlannedTensor& weight, const QuantizationConfig& quantization,
                          const ScaleForm& form) {
  const bool fp4 = spec.storage == Storage::kMxfp4;
  PlannedTensor scales;
  scales.name = weight.name.substr(0, weight.name.rfind('.')) + form.suffix;
  scales.scales_of = weight.name;
  scales.storage = spec.storage;
  scales.dtype = fp4 || (quantization.scale_fmt == "ue8m0" && !form.fp8_as_f32) ? DType::kF8E8M0 : DType::kF32;
  scales.shape = spec.names.front().shape;
  std::int64_t& rows = scales.shape[scales.shape.size() - 2];
  rows = blocks(rows, fp4 ? 1 : quantization.block_rows);
  scales.shape.back() = blocks(scales.shape.back(), fp4 ? kMxfp4Block : quantization.block_columns);
  scales.row_values = weight.row_values;
  scales.group = weight.group;
  scales.routed_expert = weight.routed_expert;
  return scales;
}

}  // namespace

ParameterCount count_parameters(const ModelPlan& plan) {
  ParameterCount count;
  std::int64_t routed = 0;
  for (const PlannedTensor& tensor : plan.tensors) {
    if (!tensor.group.empty()) continue;
    count.all += tensor.parameters;
    if (tensor.routed_expert) routed += tensor.parameters;
  }
  const MoeConfig& moe = plan.config.moe;
  count.active = count.all;
  if (routed > 0) count.active -= routed / moe.n_routed_experts * (moe.n_routed_experts - moe.num_experts_per_tok);
  return count;
}

std::vector<PlannedTensor> planned_tensors(const WeightTable& table, const QuantizationConfig& quantization,
                                           const ScaleForm& form) {
  std::vector<PlannedTensor> tensors;
  std::set<std::string> seen;  // a tensor that is bound in parts has several specs
  for (const WeightSpec& spec : table) {
    if (!seen.insert(spec.names.front().name).second) continue;
    tensors.push_back(plan_weight(spec));
    if (spec.storage == Storage::kFp8 || spec.storage == Storage::kMxfp4) {
      tensors.push_back(plan_scales(spec, tensors.back(), quantization, form));
    }
  }
  return tensors;
}

}  // namespace sluice
