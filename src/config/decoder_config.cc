#include "config/decoder_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "config/model_config.h"
#include "files/json_fields.h"

namespace sluice {
namespace {

void read_heads(JsonFields& fields, ModelConfig& config) {
  if (config.head_dim == 0) {
    if (config.hidden_size % config.num_attention_heads != 0) {
      return fields.fail("head_dim", "a value, as num_attention_heads does not divide hidden_size");
    }
    config.head_dim = config.hidden_size / config.num_attention_heads;
  }
  if (config.head_dim % 2 != 0) fields.fail("head_dim", "an even number");
  if (config.num_attention_heads % config.num_key_value_heads != 0) {
    fields.fail("num_key_value_heads",
                fmt::format("a divisor of num_attention_heads ({})", config.num_attention_heads));
  }
  std::string activation = "silu";
  fields.read("hidden_act", activation);
  if (activation != "silu") fields.fail("hidden_act", "\"silu\"");
}

// Which layers have a sliding window: layer_types, or those from max_window_layers on.
void read_windows(JsonFields& fields, int layers, DecoderConfig& decoder) {
  decoder.windows.assign(static_cast<std::size_t>(layers), 0);
  std::vector<std::string> types;
  bool windows = false;
  int window = 0, first = 0;
  fields.read("layer_types", types);
  fields.read("use_sliding_window", windows);
  fields.read("sliding_window", window, 1, 1 << 30);
  fields.read("max_window_layers", first, 0, 1 << 16);
  if (!types.empty() && types.size() < decoder.windows.size()) {
    return fields.fail("layer_types", fmt::format("a type for each of num_hidden_layers = {}", layers));
  }
  const bool official = types.empty() || fields.has("use_sliding_window");
  for (int i = 0; i < layers; ++i) {
    const auto layer = static_cast<std::size_t>(i);
    bool has = official && windows && i >= first;
    if (!types.empty()) {
      if (types[layer] != "full_attention" && types[layer] != "sliding_attention") {
        return fields.fail("layer_types", "types full_attention or sliding_attention");
      }
      if (!official) has = types[layer] == "sliding_attention";
    }
    if (!has) continue;
    if (window == 0) return fields.fail("sliding_window", "the window of its sliding layers");
    decoder.windows[layer] = window;
  }
}

// num_experts, in newer configs num_local_experts; the layers that are dense all the same.
void read_experts(JsonFields& fields, ModelConfig& config, DecoderConfig& decoder) {
  MoeConfig& moe = config.moe;
  const std::string_view count = fields.has("num_experts") ? "num_experts" : "num_local_experts";
  fields.require(count, moe.n_routed_experts, 1, 1 << 16);
  fields.require("num_experts_per_tok", moe.num_experts_per_tok, 1, std::max(moe.n_routed_experts, 1));
  fields.require("moe_intermediate_size", moe.moe_intermediate_size, 1, kMaxWidth);
  moe.norm_topk_prob = false;
  fields.read("norm_topk_prob", moe.norm_topk_prob);
  moe.scoring_func = "softmax";
  int step = 1;
  std::vector<std::int32_t> dense;
  fields.read("decoder_sparse_step", step, 1, 1 << 16);
  fields.read("mlp_only_layers", dense, 0, 1 << 16);
  for (int i = 0; i < config.num_hidden_layers; ++i) {
    decoder.sparse_layers[static_cast<std::size_t>(i)] =
        (i + 1) % step == 0 && std::ranges::find(dense, i) == dense.end();
  }
}

Status read(JsonFields& fields, ModelConfig& config, DecoderConfig decoder, bool with_experts) {
  read_heads(fields, config);
  fields.require("intermediate_size", decoder.intermediate_size, 1, kMaxWidth);
  read_windows(fields, config.num_hidden_layers, decoder);
  decoder.sparse_layers.assign(static_cast<std::size_t>(config.num_hidden_layers), false);
  if (with_experts) read_experts(fields, config, decoder);
  SLUICE_RETURN_IF_ERROR(fields.status());
  SLUICE_RETURN_IF_ERROR(read_rope_config(fields, config.rope));
  config.moe.expert_dtype = config.quantization.fp8 ? "fp8" : "bf16";
  config.family = std::move(decoder);
  return {};
}

}  // namespace

Status read_llama_config(JsonFields& fields, ModelConfig& config) {
  DecoderConfig decoder;
  fields.read("attention_bias", decoder.qkv_bias);
  decoder.o_bias = decoder.qkv_bias;
  bool mlp_bias = false;
  fields.read("mlp_bias", mlp_bias);
  if (mlp_bias) fields.fail("mlp_bias", "false");
  return read(fields, config, std::move(decoder), false);
}

Status read_qwen2_config(JsonFields& fields, ModelConfig& config) {
  DecoderConfig decoder;
  decoder.qkv_bias = true;
  return read(fields, config, std::move(decoder), false);
}

Status read_qwen3_config(JsonFields& fields, ModelConfig& config) {
  DecoderConfig decoder;
  decoder.qk_norm = true;
  fields.read("attention_bias", decoder.qkv_bias);
  decoder.o_bias = decoder.qkv_bias;
  return read(fields, config, std::move(decoder), false);
}

Status read_qwen3_moe_config(JsonFields& fields, ModelConfig& config) {
  DecoderConfig decoder;
  decoder.qk_norm = true;
  fields.read("attention_bias", decoder.qkv_bias);
  decoder.o_bias = decoder.qkv_bias;
  return read(fields, config, std::move(decoder), true);
}

}  // namespace sluice
