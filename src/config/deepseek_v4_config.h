// The part of a model's configuration that only the DeepSeek-V4 family has.
// The field names are the keys of the official config.json (docs/models/deepseek_v4.md §1).
// Used by deepseek_v4_schedule.cc, model_config.h and model_families.cc.
#pragma once

#include <vector>

#include "sluice/status.h"

namespace sluice {

struct ModelConfig;
class ConfigReader;

// The settings that differ from layer to layer.
struct DeepSeekV4Layer {
  int compress_ratio = 0;     // 0: sliding window only; 4: CSA; 128: HCA
  bool hash_routing = false;  // experts chosen by token id, else by score and bias

  bool operator==(const DeepSeekV4Layer&) const = default;
};

struct DeepSeekV4Config {
  int qk_rope_head_dim = 0;  // the trailing dims of head_dim that are rotated; even
  int q_lora_rank = 0;
  int o_lora_rank = 0;
  int o_groups = 0;        // divides num_attention_heads
  int sliding_window = 0;  // positions, the query's own included
  int index_n_heads = 0;
  int index_head_dim = 0;  // a power of two, >= qk_rope_head_dim
  int index_topk = 0;
  int hc_mult = 4;  // residual streams
  int hc_sinkhorn_iters = 20;
  double hc_eps = 1e-6;
  std::vector<DeepSeekV4Layer> layers;      // num_hidden_layers of them
  std::vector<DeepSeekV4Layer> mtp_layers;  // num_nextn_predict_layers of them
  bool dspark = false;                      // its drafter is DSpark (keys dspark_*), not a layer of its own kind

  int nope_head_dim(int head_dim) const { return head_dim - qk_rope_head_dim; }
};

// Fills `config` from the keys of config.json, official or newer form (official keys win when both are there).
Status read_deepseek_v4_config(ConfigReader& reader, ModelConfig& config);

// The parts of a DeepSeek-V4 config that come in two forms: the official keys, and those of the newer transformers
// form. If both are there, the official keys win. See docs/models/deepseek_v4.md §1.1, §1.2.

struct DeepSeekV4Config;
struct ModelConfig;
class JsonFields;

// Fills v4.layers and v4.mtp_layers from compress_ratios and num_hash_layers, or from layer_types, compress_rates and
// mlp_layer_types. A config without any schedule means the transformers library's default: layers 0 to 2 HCA, then CSA
// and HCA in turn.
Status read_deepseek_v4_layers(JsonFields& fields, int layer_count, int mtp_layer_count, DeepSeekV4Config& v4);

// Fills config.rope and config.compress_rope from rope_theta, compress_rope_theta and rope_scaling, or from
// rope_parameters, nested (main, compress) or flat.
Status read_deepseek_v4_rope(JsonFields& fields, ModelConfig& config);

}  // namespace sluice
