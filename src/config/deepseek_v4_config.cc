#include "config/deepseek_v4_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <boost/json/value.hpp>
#include <cmath>
#include <limits>

#include "config/model_config.h"
#include "files/json_fields.h"

namespace sluice {
namespace {

void read_moe(JsonFields& fields, const QuantizationConfig& quantization, MoeConfig& moe) {
  fields.require("n_routed_experts", moe.n_routed_experts, 1, 1 << 16);
  fields.require("n_shared_experts", moe.n_shared_experts, 0, 64);
  fields.require("num_experts_per_tok", moe.num_experts_per_tok, 1, std::max(moe.n_routed_experts, 1));
  fields.require("moe_intermediate_size", moe.moe_intermediate_size, 1, kMaxWidth);
  fields.require("routed_scaling_factor", moe.routed_scaling_factor, 1e-6, 1e6);
  double limit = 0.0;
  fields.require("swiglu_limit", limit, 0.0, 1e6);
  if (limit > 0.0) moe.swiglu_limit = limit;  // 0: no clamp
  moe.scoring_func = "sqrtsoftplus";
  moe.expert_dtype_is_given = fields.has("expert_dtype");
  moe.expert_dtype = quantization.fp8 ? "fp4" : "bf16";
  fields.read("expert_dtype", moe.expert_dtype);
  if (moe.expert_dtype != "fp4" && moe.expert_dtype != "fp8" && moe.expert_dtype != "bf16") {
    fields.fail("expert_dtype", "\"fp4\", \"fp8\" or \"bf16\"");
  }
}

// Keys that may be there, but with one value only.
void check_fixed_choices(JsonFields& fields) {
  const auto expect_text = [&](std::string_view key, std::string_view expected) {
    std::string text(expected);
    fields.read(key, text);
    if (text != expected) fields.fail(key, fmt::format("\"{}\"", expected));
  };
  const auto expect_flag = [&](std::string_view key, bool expected) {
    bool flag = expected;
    fields.read(key, flag);
    if (flag != expected) fields.fail(key, expected ? "true" : "false");
  };
  expect_text("hidden_act", "silu");
  expect_text("scoring_func", "sqrtsoftplus");
  expect_text("topk_method", "noaux_tc");
  expect_flag("norm_topk_prob", true);
  expect_flag("attention_bias", false);
  expect_flag("mlp_bias", false);
  expect_flag("tie_word_embeddings", false);
}

void read_attention(JsonFields& fields, const ModelConfig& config, DeepSeekV4Config& v4) {
  if (config.num_key_value_heads != 1) fields.fail("num_key_value_heads", "1");
  fields.require("q_lora_rank", v4.q_lora_rank, 1, kMaxWidth);
  fields.require("o_lora_rank", v4.o_lora_rank, 1, kMaxWidth);
  fields.require("o_groups", v4.o_groups, 1, config.num_attention_heads);
  if (fields.status().ok() && config.num_attention_heads % v4.o_groups != 0) {
    fields.fail("o_groups", fmt::format("a divisor of num_attention_heads ({})", config.num_attention_heads));
  }
  fields.require("sliding_window", v4.sliding_window, 1, 1 << 20);
  fields.require("index_n_heads", v4.index_n_heads, 1, 1 << 16);
  fields.require("index_head_dim", v4.index_head_dim, 1, 1 << 16);
  if (fields.status().ok() &&
      (!std::has_single_bit(static_cast<unsigned>(v4.index_head_dim)) || v4.index_head_dim < v4.qk_rope_head_dim)) {
    fields.fail("index_head_dim", fmt::format("a power of two of at least qk_rope_head_dim ({})", v4.qk_rope_head_dim));
  }
  fields.require("index_topk", v4.index_topk, 1, 1 << 20);
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

void read_hyper_connections(JsonFields& fields, DeepSeekV4Config& v4) {
  fields.require("hc_mult", v4.hc_mult, 4, 4);  // no checkpoint has another number of streams
  fields.require("hc_sinkhorn_iters", v4.hc_sinkhorn_iters, 1, 1000);
  fields.require("hc_eps", v4.hc_eps, 0.0, 1.0);
}

}  // namespace

Status read_deepseek_v4_config(JsonFields& fields, ModelConfig& config) {
  DeepSeekV4Config v4;
  fields.require("head_dim", config.head_dim, 2, kMaxWidth);
  read_rope_dim(fields, config.head_dim, v4);
  read_attention(fields, config, v4);
  read_moe(fields, config.quantization, config.moe);
  read_hyper_connections(fields, v4);
  check_fixed_choices(fields);
  int predict_layers = 0;
  fields.read("num_nextn_predict_layers", predict_layers, 0, kMaxPredictLayers);
  for (const char* key : {"dspark_block_size", "dspark_noise_token_id", "dspark_target_layer_ids"}) {
    v4.dspark |= fields.has(key);
  }
  SLUICE_RETURN_IF_ERROR(fields.status());
  SLUICE_RETURN_IF_ERROR(read_deepseek_v4_layers(fields, config.num_hidden_layers, predict_layers, v4));
  SLUICE_RETURN_IF_ERROR(read_deepseek_v4_rope(fields, config));
  config.family = std::move(v4);
  return {};
}

}  // namespace sluice
