#include "cli/commands/synth_gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "config/gguf/gguf_config.h"

namespace sluice {
namespace {

constexpr std::string_view kExpertPlace = ".experts.";
constexpr std::int64_t kBlock = 32;
constexpr std::size_t kBlockBytes = 18;  // a block of Q4_0

// "model.layers.3.mlp.experts.7.up_proj.weight" as "blk.3." and "mlp.experts.{}.up_proj.weight".
struct OfficialName {
  std::string layer, rest;
};
OfficialName split_name(const std::string& name) {
  constexpr std::string_view kLayers = "model.layers.";
  OfficialName split{"", name};
  if (name.starts_with(kLayers)) {
    const std::size_t dot = name.find('.', kLayers.size());
    split = {fmt::format("blk.{}.", name.substr(kLayers.size(), dot - kLayers.size())), name.substr(dot + 1)};
  }
  const std::size_t experts = split.rest.find(kExpertPlace);
  if (experts == std::string::npos) return split;
  const std::size_t number = experts + kExpertPlace.size(), end = split.rest.find('.', number);
  split.rest.replace(number, end - number, "{}");
  return split;
}

// "" for a tensor that the files do not have.
std::string gguf_name(const std::string& official) {
  const OfficialName name = split_name(official);
  for (const GgufName& known : name.layer.empty() ? kGgufDeepSeek2.tensors.model : kGgufDeepSeek2.tensors.layer) {
    if (known.official == name.rest) return name.layer + std::string(known.gguf);
  }
  return "";
}

bool is_router(const PlannedTensor& tensor) {
  return tensor.name.ends_with("mlp.gate.weight");
}

// The tensor as these files store it.
PlannedTensor stored(PlannedTensor tensor) {
  tensor.dtype = DType::kF32;
  tensor.stored = WeightFormat::kF32;
  tensor.shape.back() = tensor.row_values;
  if (tensor.shape.size() == 2 && !is_router(tensor) && tensor.row_values % kBlock == 0) tensor.dtype = DType::kQ4_0;
  return tensor;
}

// A tensor of the file: one of the plan, or its experts'.
void fill(const SynthWeights& weights, const std::vector<PlannedTensor>& parts, std::size_t offset,
          std::span<std::byte> chunk) {
  const auto values = static_cast<std::size_t>(parts.front().parameters);
  const bool blocks = parts.front().dtype == DType::kQ4_0;
  const std::size_t part_bytes = blocks ? values / kBlock * kBlockBytes : values * sizeof(float);
  while (!chunk.empty()) {
    const std::size_t at = offset % part_bytes, size = std::min(chunk.size(), part_bytes - at);
    const PlannedTensor& part = parts[offset / part_bytes];
    if (blocks) {
      weights.fill_q4_0(part, at / kBlockBytes, chunk.first(size));
    } else {
      weights.fill(part, at, chunk.first(size));
    }
    offset += size;
    chunk = chunk.subspan(size);
  }
}

void write_attention(const ModelConfig& config, GgufEntries& out) {
  const DeepSeekMlaConfig& mla = config.mla();
  const auto u32 = [&out](std::string_view key, int value) {
    out.u32(fmt::format("deepseek2.{}", key), static_cast<std::uint32_t>(value));
  };
  u32("attention.head_count", config.num_attention_heads);
  u32("attention.head_count_kv", config.num_attention_heads);
  u32("attention.key_length", mla.qk_head_dim());
  u32("attention.value_length", mla.v_head_dim);
  if (mla.q_lora_rank > 0) u32("attention.q_lora_rank", mla.q_lora_rank);
  u32("attention.kv_lora_rank", mla.kv_lora_rank);
  out.f32("deepseek2.attention.layer_norm_rms_epsilon", static_cast<float>(config.rms_norm_eps));
  const RopeConfig& rope = config.rope;
  u32("rope.dimension_count", mla.qk_rope_head_dim);
  out.f32("deepseek2.rope.freq_base", static_cast<float>(rope.theta));
  if (!rope.yarn) return;
  out.str("deepseek2.rope.scaling.type", "yarn");
  out.f32("deepseek2.rope.scaling.factor", static_cast<float>(rope.factor));
  u32("rope.scaling.original_context_length", rope.original_max_position_embeddings);
  out.f32("deepseek2.rope.scaling.yarn_beta_fast", static_cast<float>(rope.beta_fast));
  out.f32("deepseek2.rope.scaling.yarn_beta_slow", static_cast<float>(rope.beta_slow));
  out.f32("deepseek2.rope.scaling.yarn_log_multiplier", static_cast<float>(0.1 * rope.mscale_all_dim));
}

void write_moe(const ModelConfig& config, GgufEntries& out) {
  const MoeConfig& moe = config.moe;
  const auto u32 = [&out](std::string_view key, int value) {
    out.u32(fmt::format("deepseek2.{}", key), static_cast<std::uint32_t>(value));
  };
  u32("expert_count", moe.n_routed_experts);
  u32("expert_used_count", moe.num_experts_per_tok);
  u32("expert_shared_count", moe.n_shared_experts);
  u32("expert_feed_forward_length", moe.moe_intermediate_size);
  out.f32("deepseek2.expert_weights_scale", static_cast<float>(moe.routed_scaling_factor));
  out.boolean("deepseek2.expert_weights_norm", moe.norm_topk_prob);
  u32("expert_gating_func", moe.scoring_func == "sigmoid" ? 2 : 1);
  if (moe.n_group > 1) {
    u32("expert_group_count", moe.n_group);
    u32("expert_group_used_count", moe.topk_group);
  }
}

// Refuses what the files cannot say, or peers would read in another way.
Status check(const ModelConfig& config) {
  const auto* mla = std::get_if<DeepSeekMlaConfig>(&config.family);
  if (mla == nullptr || mla->index_n_heads > 0) {
    return invalid_argument(fmt::format("--gguf: expected a DeepSeek-V2 or V3 config, found {}", config.architecture));
  }
  if (!std::ranges::is_sorted(mla->sparse_layers)) {
    return invalid_argument("--gguf: expected the dense layers first, found a moe_layer_freq that mixes them");
  }
  if (config.rope.yarn && config.rope.attention_factor != 1.0) {
    return invalid_argument("--gguf: expected rope_scaling with mscale = mscale_all_dim, which the format has once");
  }
  return {};
}

}  // namespace

Result<GgufEntries> gguf_metadata(const ModelConfig& config, const std::string& tokenizer) {
  SLUICE_RETURN_IF_ERROR(check(config));
  constexpr std::uint32_t kMostlyQ4_0 = 2, kQuantizationVersion = 2;
  GgufEntries out;
  out.str("general.architecture", "deepseek2").str("general.type", "model").str("general.name", "random");
  out.u32("general.file_type", kMostlyQ4_0).u32("general.quantization_version", kQuantizationVersion);
  const auto u32 = [&out](std::string_view key, std::int64_t value) {
    out.u32(fmt::format("deepseek2.{}", key), static_cast<std::uint32_t>(value));
  };
  u32("block_count", config.num_hidden_layers);
  u32("context_length", config.max_position_embeddings);
  u32("embedding_length", config.hidden_size);
  u32("feed_forward_length", config.mla().intermediate_size);
  u32("leading_dense_block_count", std::ranges::count(config.mla().sparse_layers, false));
  u32("vocab_size", config.vocab_size);
  write_attention(config, out);
  write_moe(config, out);
  const bool v2 = config.model_type == "deepseek_v2";
  SLUICE_RETURN_IF_ERROR(write_vocabulary(config, tokenizer, v2 ? "deepseek-llm" : "deepseek-v3", out));
  return out;
}

std::vector<TensorSource> gguf_sources(const ModelPlan& plan, const SynthWeights& weights) {
  std::map<std::string, std::vector<PlannedTensor>> parts;
  std::vector<std::string> order;
  for (const PlannedTensor& tensor : plan.tensors) {
    const std::string name = gguf_name(tensor.name);
    if (!tensor.scales_of.empty() || !tensor.group.empty() || name.empty()) continue;
    std::vector<PlannedTensor>& list = parts[name];
    if (list.empty()) order.push_back(name);
    list.push_back(stored(tensor));
  }
  std::vector<TensorSource> sources;
  for (const std::string& name : order) {
    std::vector<PlannedTensor>& list = parts[name];
    TensorSource source{
        .name = name, .dtype = list.front().dtype, .shape = list.front().shape, .data = {}, .produce = {}};
    if (name.find("_exps.") != std::string::npos) {
      source.shape.insert(source.shape.begin(), static_cast<std::int64_t>(list.size()));
    }
    source.produce = [&weights, list = std::move(list)](std::size_t offset, std::span<std::byte> chunk) {
      fill(weights, list, offset, chunk);
      return Status();
    };
    sources.push_back(std::move(source));
  }
  return sources;
}

}  // namespace sluice
