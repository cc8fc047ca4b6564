#include "engine/device_plan.h"

#include <fmt/format.h>

#include "base/progress.h"
#include "engine/runner.h"

namespace sluice {
namespace {

std::size_t weight_bytes(const PlannedTensor& tensor, const QuantizationConfig& quantization,
                         const LinearPacking& packing) {
  std::int64_t rows = 1;
  for (const std::int64_t size : tensor.shape) rows *= size;
  const std::int64_t values = tensor.shape.back();
  rows /= values;
  if (tensor.shape.size() == 1 || tensor.storage == Storage::kI64) {
    return static_cast<std::size_t>(rows * values) * sizeof(float);  // or ids of four bytes
  }
  WeightView view{.out = static_cast<int>(rows), .in = static_cast<int>(tensor.row_values)};
  view.block_out = quantization.block_rows, view.block_in = quantization.block_columns;
  view.scale_format = quantization.scale_fmt == "ue8m0" ? ScaleFormat::kE8m0 : ScaleFormat::kF32;
  switch (tensor.storage) {
    case Storage::kFp8:
      view.format = WeightFormat::kFp8;
      break;
    case Storage::kMxfp4:
      view.format = WeightFormat::kMxfp4, view.scale_format = ScaleFormat::kE8m0;
      view.block_out = 1, view.block_in = 32;
      break;
    default:
      view.format = tensor.storage == Storage::kBf16 ? WeightFormat::kBf16 : WeightFormat::kF32;
      view.scale_format = ScaleFormat::kNone;
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
    if (tensor.group.empty() && tensor.scales_of.empty()) {
      device.weights += weight_bytes(tensor, plan.config.quantization, packing);
    }
  }
  device.steps = plan.step_bytes(request.max_batched_tokens, request.max_model_len) +
                 Runner::logits_memory(static_cast<std::size_t>(request.max_batched_tokens),
                                       static_cast<std::size_t>(plan.config.vocab_size));
  device.left = Runner::kLeftOnDevice;
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
