// Used by cli/commands/inspect_command.cc and runner.cc.
#include "engine/runner/device_plan.h"

#include <fmt/format.h>

#include "base/progress.h"
#include "engine/runner/step_logits.h"

namespace sluice {
namespace {

std::size_t weight_bytes(const PlannedTensor& tensor, const QuantizationConfig& quantization,
                         const LinearPacking& packing) {
  std::int64_t rows = 1;
  for (const std::int64_t size : tensor.shape) rows *= size;
  const std::int64_t values = tensor.shape.back();
  rows /= values;
  if (tensor.shape.size() == 1 || tensor.dtype == DType::kI64) {
    return static_cast<std::size_t>(rows * values) * sizeof(float);  // or ids of four bytes
  }
  WeightView view{.format = tensor.stored, .out = static_cast<int>(rows), .in = static_cast<int>(tensor.row_values)};
  const WeightFormatInfo& info = weight_format(view.format);
  if (info.scaled) {
    set_scale_blocks(view, quantization.block_rows, quantization.block_columns);
    view.scale_format = info.f32_scales && quantization.scale_fmt != "ue8m0" ? ScaleFormat::kF32 : ScaleFormat::kE8m0;
  }
  return packing.packed_bytes(view);
}

std::string gigabytes(std::size_t bytes) {
  return format_bytes(static_cast<double>(bytes));
}

}  // namespace

DevicePlan plan_device(const ModelPlan& plan, const LinearPacking& packing, const MemoryRequest& request) {
  DevicePlan device;
  for (const PlannedTensor& tensor : plan.tensors) {
    if ((tensor.group.empty() || plan.mtp) && !tensor.left && tensor.scales_of.empty()) {
      const std::size_t bytes = weight_bytes(tensor, plan.config.quantization, packing);
      device.weights += static_cast<std::size_t>(tensor.own * static_cast<double>(bytes));
    }
  }
  device.steps = plan.step_bytes(request.max_batched_tokens, request.max_model_len) +
                 StepLogits::bytes(static_cast<std::size_t>(request.max_batched_tokens),
                                   static_cast<std::size_t>(plan.config.vocab_size));
  device.left = kLeftOnDevice;
  return device;
}

Result<std::string> device_text(const DevicePlan& plan, const CacheLayout& layout, const MemoryRequest& request,
                                const std::string& device, std::size_t free) {
  const auto needs = fmt::format("{} for weights, {} for steps of {} rows and {} tokens a sequence, {} for the driver",
                                 gigabytes(plan.weights), gigabytes(plan.steps), request.max_batched_tokens,
                                 request.max_model_len, gigabytes(plan.left));
  const auto too_small = [&](const std::string& why) {
    return resource_exhausted(
        fmt::format("{}: {} are free, expected {}, and memory for the cache: {}; choose another device, or lower "
                    "--max-num-batched-tokens or --max-model-len",
                    device, gigabytes(free), needs, why));
  };
  if (free <= plan.besides()) return too_small(fmt::format("{} are missing", gigabytes(plan.besides() - free)));
  MemoryRequest of_device = request;
  of_device.budget_bytes = free - plan.besides();
  const Result<MemoryPlan> memory = plan_memory(layout, of_device);
  if (!memory.ok()) return too_small(memory.status().message());
  return fmt::format(
      "on {}, {} free\n  needs        {}\n  leaves       {} for the cache: {} sequences at once, {} tokens in all\n",
      device, gigabytes(free), needs, gigabytes(of_device.budget_bytes), memory->sequences,
      std::int64_t{memory->latent_pages} * kBlockTokens);
}

}  // namespace sluice
