// Used by model_config.h and model_families.cc.
#include "config/decoder_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "config/config_keys.h"
#include "config/model_config.h"

namespace sluice {
namespace {

void read_heads(ConfigReader& reader, ModelConfig& config) {
  const int heads = config.num_attention_heads;
  config.num_key_value_heads = reader.maybe_integer("num_key_value_heads").value_or(heads);
  if (reader.fields().is_null("num_key_value_heads")) config.num_key_value_heads = heads;
  if (heads % config.num_key_value_heads != 0) {
    reader.fail("num_key_value_heads", fmt::format("a divisor of num_attention_heads ({})", heads));
  }
  const std::optional<int> head_dim = reader.maybe_integer("head_dim");
  if (!head_dim && config.hidden_size % heads != 0) {
    return reader.fail("head_dim", "a value, as num_attention_heads does not divide hidden_size");
  }
  config.head_dim = head_dim.value_or(config.hidden_size / heads);
  if (config.head_dim % 2 != 0) reader.fail("head_dim", "an even number");
}

// Reads which layers have the window from layer_types; window 0 means none.
void read_layer_types(ConfigReader& reader, const std::vector<std::string>& types, int window, DecoderConfig& decoder) {
  const std::size_t layers = decoder.windows.size();
  if (types.size() < layers) {
    return reader.fail("layer_types", fmt::format("a type for each of num_hidden_layers = {}", layers));
  }
  for (std::size_t i = 0; i < layers; ++i) {
    if (types[i] == "full_attention" || types[i] == "attention") continue;
    if (types[i] != "sliding_attention") {
      return reader.fail("layer_types", "types full_attention or sliding_attention");
    }
    if (window == 0) return reader.fail("sliding_window", "the window of its sliding layers");
    decoder.windows[i] = window;
  }
}

// Reads which layers of Qwen2 and Qwen3 have a window. Without layer_types these are the layers from max_window_layers
// on, with use_sliding_window.
void read_some_windows(ConfigReader& reader, DecoderConfig& decoder) {
  const bool asked = reader.flag("use_sliding_window");
  const int window = reader.maybe_integer("sliding_window").value_or(0);
  const int first = reader.integer("max_window_layers");
  const std::vector<std::string> types = reader.texts("layer_types");
  const std::size_t layers = decoder.windows.size();
  if (types.empty()) {
    for (auto i = static_cast<std::size_t>(first); asked && i < layers; ++i) decoder.windows[i] = window;
    return;
  }
  if (!asked && std::ranges::find(types, "sliding_attention") != types.end()) {
    return reader.fail("use_sliding_window", "true, as layer_types has sliding layers");
  }
  read_layer_types(reader, types, window, decoder);
}

void read_experts(ConfigReader& reader, ModelConfig& config, DecoderConfig& decoder) {
  MoeConfig& moe = config.moe;
  moe.n_routed_experts = reader.integer("num_experts");
  moe.num_experts_per_tok = reader.integer("num_experts_per_tok");
  if (moe.num_experts_per_tok > moe.n_routed_experts) {
    reader.fail("num_experts_per_tok", fmt::format("at most the {} experts", moe.n_routed_experts));
  }
  moe.moe_intermediate_size = reader.integer("moe_intermediate_size");
  moe.norm_topk_prob = reader.flag("norm_topk_prob");
  moe.scoring_func = "softmax";
  const int step = reader.integer("decoder_sparse_step");
  const std::vector<std::int32_t> dense = reader.integers("mlp_only_layers");
  for (int i = 0; i < config.num_hidden_layers; ++i) {
    decoder.sparse_layers[static_cast<std::size_t>(i)] =
        (i + 1) % step == 0 && std::ranges::find(dense, i) == dense.end();
  }
}

// Reads the part that all families have; the decoder's windows and experts are still to be read.
DecoderConfig read_start(ConfigReader& reader, ModelConfig& config) {
  DecoderConfig decoder;
  read_heads(reader, config);
  decoder.intermediate_size = reader.integer("intermediate_size");
  decoder.windows.assign(static_cast<std::size_t>(config.num_hidden_layers), 0);
  decoder.sparse_layers.assign(static_cast<std::size_t>(config.num_hidden_layers), false);
  return decoder;
}

Status finish(ConfigReader& reader, ModelConfig& config, DecoderConfig decoder) {
  SLUICE_RETURN_IF_ERROR(reader.status());
  SLUICE_RETURN_IF_ERROR(read_rope_config(reader, config.max_position_embeddings, config.head_dim, config.rope));
  config.moe.expert_dtype = config.quantization.fp8 ? "fp8" : "bf16";
  config.family = std::move(decoder);
  return {};
}

}  // namespace

Status read_llama_config(ConfigReader& reader, ModelConfig& config) {
  DecoderConfig decoder = read_start(reader, config);
  decoder.qkv_bias = decoder.o_bias = reader.flag("attention_bias");
  decoder.mlp_bias = reader.flag("mlp_bias");
  return finish(reader, config, std::move(decoder));
}

Status read_mistral_config(ConfigReader& reader, ModelConfig& config) {
  DecoderConfig decoder = read_start(reader, config);
  const int window = reader.maybe_integer("sliding_window").value_or(0);
  if (!reader.given("layer_types")) {
    std::ranges::fill(decoder.windows, window);
    return finish(reader, config, std::move(decoder));
  }
  // The library takes such a model for a Ministral, which has no default of head_dim.
  if (!reader.given("head_dim")) reader.fail("head_dim", "a value, as there are layer_types");
  if (window == 0) reader.fail("sliding_window", "a window, as there are layer_types");
  read_layer_types(reader, reader.texts("layer_types"), window, decoder);
  return finish(reader, config, std::move(decoder));
}

Status read_qwen2_config(ConfigReader& reader, ModelConfig& config) {
  DecoderConfig decoder = read_start(reader, config);
  decoder.qkv_bias = true;
  read_some_windows(reader, decoder);
  return finish(reader, config, std::move(decoder));
}

Status read_qwen3_config(ConfigReader& reader, ModelConfig& config) {
  DecoderConfig decoder = read_start(reader, config);
  decoder.qk_norm = true;
  decoder.qkv_bias = decoder.o_bias = reader.flag("attention_bias");
  read_some_windows(reader, decoder);
  return finish(reader, config, std::move(decoder));
}

Status read_qwen3_moe_config(ConfigReader& reader, ModelConfig& config) {
  DecoderConfig decoder = read_start(reader, config);
  decoder.qk_norm = true;
  decoder.qkv_bias = decoder.o_bias = reader.flag("attention_bias");
  const int window = reader.maybe_integer("sliding_window").value_or(0);
  if (reader.flag("use_sliding_window")) std::ranges::fill(decoder.windows, window);
  read_experts(reader, config, decoder);
  return finish(reader, config, std::move(decoder));
}

}  // namespace sluice
