// The part of a model's configuration that the plain multi-head families have: Llama, Mistral, Qwen2, Qwen3 and
// Qwen3-MoE. They differ in the options that are on, and in the layers that have windows. Thread safety: plain values.
// Used by model_config.h and model_families.cc.
#pragma once

#include <vector>

#include "sluice/status.h"

namespace sluice {

struct ModelConfig;
class ConfigReader;

struct DecoderConfig {
  bool qk_norm = false;   // RMS norm of each head's query and key before they are rotated
  bool qkv_bias = false;  // biases of the projections to queries, keys and values
  bool o_bias = false;
  bool mlp_bias = false;            // biases of the projections of dense feed-forward layers
  int intermediate_size = 0;        // in dense feed-forward layers
  std::vector<int> windows;         // [num_hidden_layers]: keys that a row sees, its own included; 0: all
  std::vector<bool> sparse_layers;  // [num_hidden_layers]: a mixture of experts
};

Status read_llama_config(ConfigReader& reader, ModelConfig& config);
Status read_mistral_config(ConfigReader& reader, ModelConfig& config);
Status read_qwen2_config(ConfigReader& reader, ModelConfig& config);
Status read_qwen3_config(ConfigReader& reader, ModelConfig& config);
Status read_qwen3_moe_config(ConfigReader& reader, ModelConfig& config);

}  // namespace sluice
