// The parts of a DeepSeek-V4 config that come in two forms: the official keys, and those of the newer transformers
// form. Where both are there, the official keys win. See docs/models/deepseek_v4.md §1.1, §1.2.
#pragma once

#include "sluice/status.h"

namespace sluice {

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
