// Used by deepseek_v4_schedule.cc, model_config.h and model_families.cc.
#include "config/deepseek_v4_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <boost/json/value.hpp>
#include <cmath>
#include <limits>

#include "config/config_keys.h"
#include "config/model_config.h"

namespace sluice {
namespace {

void read_moe(ConfigReader& reader, const QuantizationConfig& quantization, MoeConfig& moe) {
  moe.n_routed_experts = reader.integer("n_routed_experts");
  moe.n_shared_experts = reader.integer("n_shared_experts");
  moe.num_experts_per_tok = reader.integer("num_experts_per_tok");
  if (moe.num_experts_per_tok > moe.n_routed_experts) {
    reader.fail("num_experts_per_tok", fmt::format("an integer from 1 to {}", moe.n_routed_experts));
  }
  moe.moe_intermediate_size = reader.integer("moe_intermediate_size");
  moe.routed_scaling_factor = reader.number("routed_scaling_factor");
  const double limit = reader.number("swiglu_limit");
  if (limit > 0.0) moe.swiglu_limit = limit;  // 0: no clamp
  moe.scoring_func = "sqrtsoftplus";
  moe.expert_dtype_is_given = reader.given("expert_dtype");
  moe.expert_dtype = quantization.fp8 ? "fp4" : "bf16";
  reader.fields().read("expert_dtype", moe.expert_dtype);
  if (moe.expert_dtype != "fp4" && moe.expert_dtype != "fp8" && moe.expert_dtype != "bf16") {
    reader.fail("expert_dtype", "\"fp4\", \"fp8\" or \"bf16\"");
  }
}

void read_attention(ConfigReader& reader, ModelConfig& config, DeepSeekV4Config& v4) {
  config.num_key_value_heads = reader.maybe_integer("num_key_value_heads").value_or(config.num_attention_heads);
  if (config.num_key_value_heads != 1) reader.fail("num_key_value_heads", "1");
  v4.q_lora_rank = reader.integer("q_lora_rank");
  v4.o_lora_rank = reader.integer("o_lora_rank");
  v4.o_groups = reader.integer("o_groups");
  if (reader.status().ok() && config.num_attention_heads % v4.o_groups != 0) {
    reader.fail("o_groups", fmt::format("a divisor of num_attention_heads ({})", config.num_attention_heads));
  }
  v4.sliding_window = reader.integer("sliding_window");
  v4.index_n_heads = reader.integer("index_n_heads");
  v4.index_head_dim = reader.integer("index_head_dim");
  if (reader.status().ok() &&
      (!std::has_single_bit(static_cast<unsigned>(v4.index_head_dim)) || v4.index_head_dim < v4.qk_rope_head_dim)) {
    reader.fail("index_head_dim", fmt::format("a power of two of at least qk_rope_head_dim ({})", v4.qk_rope_head_dim));
  }
  v4.index_topk = reader.integer("index_topk");
}

// partial_rotary_factor of the newer form, at the top or among the rope parameters; 0 when there is none.
double read_partial_rotary_factor(JsonFields& fields) {
  double factor = 0.0;
  const JsonFields parameters = fields.child("rope_parameters");
  for (JsonFields entry : {fields, parameters, parameters.child("main")}) {
    if (factor == 0.0) entry.read("partial_rotary_factor", factor, 0.0, 1.0);
    fields.merge(entry);
  }
  return factor;
}

// qk_rope_head_dim, or partial_rotary_factor x head_dim in the newer form.
void read_rope_dim(JsonFields& fields, int head_dim, DeepSeekV4Config& v4) {
  std::string_view key = "qk_rope_head_dim";
  bool whole = true;
  if (fields.has(key)) {
    fields.read(key, v4.qk_rope_head_dim, 2, head_dim);
  } else if (const double factor = read_partial_rotary_factor(fields); factor > 0.0) {
    key = "partial_rotary_factor";
    const double product = factor * head_dim;
    v4.qk_rope_head_dim = static_cast<int>(std::lround(product));
    whole = std::abs(product - v4.qk_rope_head_dim) < 1e-3;
  } else {
    fields.fail(key, "the number of rotated dims, or a partial_rotary_factor");
  }
  if (fields.status().ok() && (!whole || v4.qk_rope_head_dim < 2 || v4.qk_rope_head_dim % 2 != 0)) {
    fields.fail(key, fmt::format("an even number of rotated dims up to head_dim ({})", head_dim));
  }
}

void read_hyper_connections(ConfigReader& reader, DeepSeekV4Config& v4) {
  v4.hc_mult = reader.integer("hc_mult");  // the number of residual streams
  v4.hc_sinkhorn_iters = reader.integer("hc_sinkhorn_iters");
  v4.hc_eps = reader.number("hc_eps");
}

}  // namespace

Status read_deepseek_v4_config(ConfigReader& reader, ModelConfig& config) {
  DeepSeekV4Config v4;
  config.head_dim = reader.integer("head_dim");
  read_rope_dim(reader.fields(), config.head_dim, v4);
  read_attention(reader, config, v4);
  read_moe(reader, config.quantization, config.moe);
  read_hyper_connections(reader, v4);
  const int predict_layers = reader.integer("num_nextn_predict_layers");
  for (const char* key : {"dspark_block_size", "dspark_noise_token_id", "dspark_target_layer_ids"}) {
    v4.dspark |= reader.given(key);
  }
  SLUICE_RETURN_IF_ERROR(reader.status());
  SLUICE_RETURN_IF_ERROR(read_deepseek_v4_layers(reader.fields(), config.num_hidden_layers, predict_layers, v4));
  SLUICE_RETURN_IF_ERROR(read_deepseek_v4_rope(reader.fields(), config));
  config.family = std::move(v4);
  return {};
}

}  // namespace sluice
