// Used by cli/commands/synth_command.cc.
#include "model/weights/synth_sources.h"

#include <cstddef>
#include <span>
#include <utility>

namespace sluice {

std::vector<TensorSource> synth_sources(const ModelPlan& plan, const SynthWeights& weights) {
  std::vector<TensorSource> sources;
  sources.reserve(plan.tensors.size());
  for (const PlannedTensor& tensor : plan.tensors) {
    TensorSource source{.name = tensor.name, .dtype = tensor.dtype, .shape = tensor.shape, .data = {}, .produce = {}};
    source.produce = [&weights, &tensor](std::size_t offset, std::span<std::byte> chunk) {
      weights.fill(tensor, offset, chunk);
      return Status();
    };
    sources.push_back(std::move(source));
  }
  return sources;
}

std::vector<TensorSource> synth_sources_as_f32(const ModelPlan& plan, const SynthWeights& weights) {
  std::vector<TensorSource> all = synth_sources(plan, weights), sources;
  for (std::size_t i = 0; i < plan.tensors.size(); ++i) {
    const PlannedTensor& tensor = plan.tensors[i];
    if (!tensor.scales_of.empty()) continue;
    const bool scaled = i + 1 < plan.tensors.size() && plan.tensors[i + 1].scales_of == tensor.name;
    const PlannedTensor* scales = scaled ? &plan.tensors[i + 1] : nullptr;
    TensorSource source = std::move(all[i]);
    if (tensor.dtype != DType::kI64) {
      source.dtype = DType::kF32;
      source.shape.back() = tensor.row_values;
      source.produce = [&plan, &weights, &tensor, scales](std::size_t offset, std::span<std::byte> chunk) {
        weights.fill_as_f32(tensor, scales, plan.config.quantization, offset, chunk);
        return Status();
      };
    }
    sources.push_back(std::move(source));
  }
  return sources;
}

}  // namespace sluice
