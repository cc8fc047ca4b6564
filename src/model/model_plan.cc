// Used by bench, cli, engine, model and verify.
#include "model/model_plan.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace sluice {
namespace {

std::int64_t blocks(std::int64_t values, std::int64_t block) {
  return (values + block - 1) / block;
}

PlannedTensor plan_weight(const WeightSpec& spec) {
  const TensorName& official = spec.names.front();
  PlannedTensor tensor;
  tensor.name = official.name;
  const WeightFormatInfo& info = weight_format(spec.stored);
  tensor.dtype = spec.is_ids() ? DType::kI64 : info.stored.front();
  tensor.stored = spec.stored;
  tensor.shape = official.shape;
  tensor.row_values = official.shape.back();
  tensor.id_limit = spec.id_limit;
  tensor.group = spec.group;
  tensor.left = spec.left;
  tensor.routed_expert = spec.routed_expert;
  if (spec.is_ids()) return tensor;
  tensor.parameters = 1;
  for (const std::int64_t size : official.shape) tensor.parameters *= size;
  tensor.shape.back() /= info.values;
  return tensor;
}

PlannedTensor plan_scales(const WeightSpec& spec, const PlannedTensor& weight, const QuantizationConfig& quantization,
                          const ScaleForm& form) {
  const WeightFormatInfo& info = weight_format(spec.stored);
  WeightView blocks_of{.format = spec.stored};
  set_scale_blocks(blocks_of, quantization.block_rows, quantization.block_columns);
  const bool f32 = info.f32_scales && (quantization.scale_fmt != "ue8m0" || form.fp8_as_f32);
  PlannedTensor scales;
  scales.name = weight.name.substr(0, weight.name.rfind('.')) + form.suffix;
  scales.scales_of = weight.name;
  scales.stored = spec.stored;
  scales.dtype = f32 ? DType::kF32 : DType::kF8E8M0;
  scales.shape = spec.names.front().shape;
  std::int64_t& rows = scales.shape[scales.shape.size() - 2];
  rows = blocks(rows, blocks_of.block_out);
  scales.shape.back() = blocks(scales.shape.back(), blocks_of.block_in);
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
  std::map<std::string, std::int64_t> bound;  // values bound, by tensor; one bound in parts has several specs
  for (const WeightSpec& spec : table) {
    std::int64_t values = spec.share.count > 0 ? spec.share.count : spec.shape.front();
    for (std::size_t i = 1; i < spec.shape.size(); ++i) values *= spec.shape[i];
    bound[spec.names.front().name] += values;
  }
  std::set<std::string> seen;
  for (const WeightSpec& spec : table) {
    if (!seen.insert(spec.names.front().name).second) continue;
    tensors.push_back(plan_weight(spec));
    PlannedTensor& tensor = tensors.back();
    if (tensor.parameters > 0) {
      tensor.own = std::min(1.0, static_cast<double>(bound[tensor.name]) / static_cast<double>(tensor.parameters));
    }
    if (!spec.is_ids() && weight_format(spec.stored).scaled) {
      const double own = tensors.back().own;
      tensors.push_back(plan_scales(spec, tensors.back(), quantization, form));
      tensors.back().own = own;
    }
  }
  return tensors;
}

}  // namespace sluice
