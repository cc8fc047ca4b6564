// The part of a model's configuration that the plain multi-head families have: Llama, Qwen2, Qwen3 and Qwen3-MoE. They
// differ in what is switched on. Official and newer config form (layer_types, num_local_experts); the official keys win
// where both are there. Thread safety: plain values.
#pragma once

#include <vector>

#include "sluice/status.h"

namespace sluice {

struct ModelConfig;
class JsonFields;

struct DecoderConfig {
  bool qk_norm = false;   // RMS norm of each head's query and key before they are rotated
  bool qkv_bias = false;  // of the projections to queries, keys and values
  bool o_bias = false;
  int intermediate_size = 0;        // of dense feed-forward layers
  std::vector<int> windows;         // [num_hidden_layers]: keys that a row sees, its own included; 0: all
  std::vector<bool> sparse_layers;  // [num_hidden_layers]: a mixture of experts
};

Status read_llama_config(JsonFields& fields, ModelConfig& config);
Status read_qwen2_config(JsonFields& fields, ModelConfig& config);
Status read_qwen3_config(JsonFields& fields, ModelConfig& config);
Status read_qwen3_moe_config(JsonFields& fields, ModelConfig& config);

}  // namespace sluice
