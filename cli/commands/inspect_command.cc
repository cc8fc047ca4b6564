#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/progress.h"
#include "base/threads/cpu_topology.h"
#include "base/threads/shared_cores.h"
#include "base/utf8.h"
#include "cache/memory_plan.h"
#include "cli/commands/inspect_text.h"
#include "cli/commands/model_commands.h"
#include "cli/exit_code.h"
#include "cli/model_path.h"
#include "config/gguf/gguf_config.h"
#include "engine/engine_options.h"
#include "engine/runner/device_choice.h"
#include "engine/runner/device_plan.h"
#include "files/checkpoint.h"
#include "files/model_path.h"
#include "kernels/ops/linear.h"
#include "model/model_plan.h"
#include "model/weights/dummy_checkpoint.h"
#include "model/weights/own_head.h"

namespace sluice {
namespace {

// Orders names with numbers by value: "layers.2.x" comes before "layers.10.a".
bool natural_less(const InspectedTensor& a, const InspectedTensor& b) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto digits = [&](std::string_view text) {
    return static_cast<std::size_t>(std::ranges::find_if_not(text, is_digit) - text.begin());
  };
  std::string_view x = a.name, y = b.name;
  while (!x.empty() && !y.empty()) {
    const std::size_t in_x = digits(x), in_y = digits(y), count = std::max<std::size_t>(1, in_x);
    if (in_x > 0 && in_y > 0 && in_x != in_y) return in_x < in_y;
    if (const int order = x.substr(0, count).compare(y.substr(0, count)); order != 0) return order < 0;
    x.remove_prefix(count);
    y.remove_prefix(count);
  }
  return x.size() < y.size();
}

// Lists the tensors of the checkpoint or, without one, those that the official checkpoint would have.
Result<std::vector<InspectedTensor>> list_tensors(const ModelPlan& plan, const Checkpoint* checkpoint) {
  std::vector<InspectedTensor> tensors;
  if (checkpoint != nullptr) {
    for (const TensorView* tensor : checkpoint->tensors()) {
      tensors.push_back({tensor->name, tensor->dtype, tensor->shape, tensor->bytes});
    }
    std::ranges::stable_sort(tensors, natural_less);
    return tensors;
  }
  for (const PlannedTensor& tensor : plan.tensors) {
    SLUICE_ASSIGN_OR_RETURN(const std::size_t bytes, tensor_bytes(tensor.dtype, tensor.shape));
    tensors.push_back({tensor.name, tensor.dtype, tensor.shape, bytes});
  }
  return tensors;
}

// Lists the cache in every combination of types that the model takes.
std::vector<InspectedCache> list_caches(const ModelPlan& plan) {
  std::vector<InspectedCache> caches;
  EngineSetup options;
  for (const char* kv : {"f32", "bf16", "fp8"}) {
    for (const char* index : {"f32", "bf16", "fp8", "fp4"}) {
      options.numerics.kv_cache_dtype = kv;
      options.numerics.index_cache_dtype = plan.profile.indexed ? index : "auto";
      auto other = plan_model(plan.config, options);  // an error if the model does not take these types
      if (other.ok()) caches.push_back({kv, plan.profile.indexed ? index : "-", std::move(other)->cache_layout});
      if (!plan.profile.indexed) break;
    }
  }
  return caches;
}

Result<MemoryRequest> memory_request(const EngineSetup& options, const ModelConfig& config) {
  SLUICE_RETURN_IF_ERROR(validate(options));
  const int limit = config.max_position_embeddings;
  if (options.model.max_model_len > limit) {
    return invalid_argument(fmt::format("--max-model-len: expected at most {}, the model's own limit, found {}", limit,
                                        options.model.max_model_len));
  }
  return MemoryRequest{.budget_bytes = resolve_kv_cache_memory(options),
                       .max_seqs = options.scheduler.max_num_seqs,
                       .max_batched_tokens = resolve_step_rows(options),
                       .max_model_len = options.model.max_model_len > 0 ? options.model.max_model_len : limit};
}

// Shows how much of a device's memory the model takes, if a device was asked for.
Status inspect_device(const EngineSetup& options, const ModelPlan& plan, const MemoryRequest& request) {
  if (!options.machine.device.starts_with("cuda")) return {};
  SLUICE_ASSIGN_OR_RETURN(const DeviceChoice choice, choose_device(options.machine, options.numerics));
  const DevicePlan needed = plan_device(plan, linear_packing(*choice.kernels), request);
  SLUICE_ASSIGN_OR_RETURN(const std::string text,
                          device_text(needed, plan.cache_layout, request, "--device " + options.machine.device,
                                      choice.device().free_bytes()));
  fmt::print("{}", text);
  return {};
}

// Shows the part of the official checkpoint that each of several ranks holds.
std::string ranks_text(const ModelPlan& plan, int ranks) {
  double bytes = 0, whole = 0;
  for (const PlannedTensor& tensor : plan.tensors) {
    if ((!tensor.group.empty() && !plan.mtp) || tensor.left) continue;
    double stored = dtype_bits(tensor.dtype) / 8.0;
    for (const std::int64_t size : tensor.shape) stored *= static_cast<double>(size);
    whole += stored, bytes += tensor.own * stored;
  }
  return fmt::format(
      "ranks: {} (--tensor-parallel-size), each with {} of the {} of weights; {:.0f} bytes of cache a "
      "token on each\n",
      ranks, format_bytes(bytes), format_bytes(whole), plan.cache_layout.latent_bytes_per_token());
}

Status inspect(const InspectOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(const std::string path, resolve_model_or_config(options.engine.model.folder));
  const bool config_only = is_dummy(options.engine.model) || is_config_path(path);  // then there are no weights to read
  SLUICE_ASSIGN_OR_RETURN(ModelConfig config, load_model_config(path));
  std::optional<Checkpoint> checkpoint;
  if (!config_only) {
    SLUICE_ASSIGN_OR_RETURN(checkpoint, Checkpoint::open(path, gguf_names));
    untie_own_head(*checkpoint, config);
  }
  SLUICE_ASSIGN_OR_RETURN(const ModelPlan plan, plan_model(std::move(config), options.engine));
  const Checkpoint* opened = checkpoint ? &*checkpoint : nullptr;
  SLUICE_ASSIGN_OR_RETURN(const std::vector<InspectedTensor> tensors, list_tensors(plan, opened));
  SLUICE_ASSIGN_OR_RETURN(const MemoryRequest request, memory_request(options.engine, plan.config));

  fmt::print("{}\n\n{}\n", to_valid_utf8(path), config_text(plan, tensors));
  fmt::print("{}\n", tensor_text(tensors, count_parameters(plan), options.tensors));
  fmt::print("{}\n{}\n", cache_text(plan.cache_layout), cache_types_text(list_caches(plan)));
  SLUICE_ASSIGN_OR_RETURN(const MemoryPlan memory, plan_memory(plan.cache_layout, request));
  fmt::print("{}threads: {}\n", memory_text(memory, request), cores_text(known_cpu_order(usable_cpus())));
  if (const int ranks = options.engine.machine.tensor_parallel_size; ranks > 1) {
    fmt::print("{}", ranks_text(plan, ranks));
  }
  return inspect_device(options.engine, plan, request);
}

}  // namespace

int run_inspect(const InspectOptions& options) {
  return report(inspect(options));
}

}  // namespace sluice
