// The part of a model's configuration that the families with multi-head latent attention have: DeepSeek-V2, V3 (R1,
// V3.1, Kimi-K2) and V3.2 (docs/models/deepseek_v3.md). The field names are the keys of config.json unless a comment
// says otherwise.
// Used by model_config.h and model_families.cc.
#pragma once

#include <vector>

#include "sluice/status.h"

namespace sluice {

struct ModelConfig;
class ConfigReader;

struct DeepSeekMlaConfig {
  int q_lora_rank = 0;  // 0: queries come straight from the hidden state
  int kv_lora_rank = 0;
  int qk_nope_head_dim = 0;
  int qk_rope_head_dim = 0;  // even
  int v_head_dim = 0;
  bool attention_bias = false;      // biases of the projections q_a, kv_a and o
  bool mlp_bias = false;            // biases in dense feed-forward layers and shared experts
  bool rope_interleave = true;      // pairs of the queries' and keys' rotary dims
  int intermediate_size = 0;        // in dense feed-forward layers
  std::vector<bool> sparse_layers;  // [num_hidden_layers]: a mixture of experts; from either form's keys
  int predict_layers = 0;           // num_nextn_predict_layers
  int index_n_heads = 0;            // 0: no indexer
  int index_head_dim = 0;           // a power of two, >= qk_rope_head_dim
  int index_topk = 0;

  int latent_dim() const { return kv_lora_rank + qk_rope_head_dim; }
  int qk_head_dim() const { return qk_nope_head_dim + qk_rope_head_dim; }
};

// Fill `config` from the keys of config.json, official or newer form. config.moe describes the router's computation: V2
// normalises instead of scaling, so the factor is 1 then.
Status read_deepseek_v2_config(ConfigReader& reader, ModelConfig& config);
Status read_deepseek_v3_config(ConfigReader& reader, ModelConfig& config);
Status read_deepseek_v32_config(ConfigReader& reader, ModelConfig& config);

}  // namespace sluice
