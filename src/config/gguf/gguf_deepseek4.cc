// DeepSeek-V4 in GGUF files: shapes and rotated dims are the official ones, there are no MTP layers.
// Used by cli/commands, config, config/gguf and model.
#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "config/gguf/gguf_config.h"

namespace sluice {
namespace {

namespace json = boost::json;

constexpr std::int64_t kGatingSqrtSoftplus = 4;

constexpr GgufName kModelNames[] = {
    {"token_embd.weight", "embed.weight"},     {"output_norm.weight", "norm.weight"},
    {"output.weight", "head.weight"},          {"output_hc_fn.weight", "hc_head_fn"},
    {"output_hc_base.weight", "hc_head_base"}, {"output_hc_scale.weight", "hc_head_scale"},
};

constexpr GgufName kLayerNames[] = {
    {"attn_norm.weight", "attn_norm.weight"},
    {"ffn_norm.weight", "ffn_norm.weight"},
    {"hc_attn_fn.weight", "hc_attn_fn"},
    {"hc_attn_base.weight", "hc_attn_base"},
    {"hc_attn_scale.weight", "hc_attn_scale"},
    {"hc_ffn_fn.weight", "hc_ffn_fn"},
    {"hc_ffn_base.weight", "hc_ffn_base"},
    {"hc_ffn_scale.weight", "hc_ffn_scale"},
    {"attn_sinks.weight", "attn.attn_sink"},
    {"attn_q_a.weight", "attn.wq_a.weight"},
    {"attn_q_a_norm.weight", "attn.q_norm.weight"},
    {"attn_q_b.weight", "attn.wq_b.weight"},
    {"attn_kv.weight", "attn.wkv.weight"},
    {"attn_kv_a_norm.weight", "attn.kv_norm.weight"},
    {"attn_output_a.weight", "attn.wo_a.weight"},
    {"attn_output_b.weight", "attn.wo_b.weight"},
    {"attn_compressor_ape.weight", "attn.compressor.ape"},
    {"attn_compressor_kv.weight", "attn.compressor.wkv.weight"},
    {"attn_compressor_gate.weight", "attn.compressor.wgate.weight"},
    {"attn_compressor_norm.weight", "attn.compressor.norm.weight"},
    {"indexer.attn_q_b.weight", "attn.indexer.wq_b.weight"},
    {"indexer.proj.weight", "attn.indexer.weights_proj.weight"},
    {"indexer_compressor_ape.weight", "attn.indexer.compressor.ape"},
    {"indexer_compressor_kv.weight", "attn.indexer.compressor.wkv.weight"},
    {"indexer_compressor_gate.weight", "attn.indexer.compressor.wgate.weight"},
    {"indexer_compressor_norm.weight", "attn.indexer.compressor.norm.weight"},
    {"ffn_gate_inp.weight", "ffn.gate.weight"},
    {"exp_probs_b.bias", "ffn.gate.bias"},
    {"ffn_gate_tid2eid.weight", "ffn.gate.tid2eid"},
    {"ffn_gate_exps.weight", "ffn.experts.{}.w1.weight", GgufLayout::kExperts},
    {"ffn_down_exps.weight", "ffn.experts.{}.w2.weight", GgufLayout::kExperts},
    {"ffn_up_exps.weight", "ffn.experts.{}.w3.weight", GgufLayout::kExperts},
    {"ffn_gate_shexp.weight", "ffn.shared_experts.w1.weight"},
    {"ffn_down_shexp.weight", "ffn.shared_experts.w2.weight"},
    {"ffn_up_shexp.weight", "ffn.shared_experts.w3.weight"},
};

void write_attention(GgufFields& fields, json::object& config) {
  GgufConfigWriter writer(fields, config);
  const std::int64_t head_dim = writer.integer("head_dim", "attention.key_length");
  std::int64_t value_length = head_dim;
  fields.read("attention.value_length", value_length, 0, INT32_MAX);
  if (value_length != head_dim) fields.fail("attention.value_length", fmt::format("the key length, {}", head_dim));
  writer.integer("qk_rope_head_dim", "rope.dimension_count");
  writer.integer("q_lora_rank", "attention.q_lora_rank");
  writer.integer("o_lora_rank", "attention.output_lora_rank");
  writer.integer("o_groups", "attention.output_group_count");
  writer.integer("sliding_window", "attention.sliding_window");
  writer.integer("index_n_heads", "attention.indexer.head_count");
  writer.integer("index_head_dim", "attention.indexer.key_length");
  writer.integer("index_topk", "attention.indexer.top_k");
  writer.number("compress_rope_theta", "attention.compress_rope_freq_base");
  std::vector<std::int64_t> ratios;
  fields.require("attention.compress_ratios", ratios, std::int64_t{0}, std::int64_t{INT32_MAX});
  config["compress_ratios"] = json::array(ratios.begin(), ratios.end());
  writer.rope();
}

// The one limit of all layers, routed and shared; 0 for none.
void write_swiglu_limit(GgufFields& fields, json::object& config) {
  std::vector<double> limits;
  fields.require("swiglu_clamp_exp", limits);
  for (const std::string_view key : {"swiglu_clamp_exp", "swiglu_clamp_shexp"}) {
    std::vector<double> of_key = limits;
    fields.read(key, of_key);
    if (!fields.status().ok()) return;
    if (of_key.empty() || std::ranges::any_of(of_key, [&](double limit) { return limit != limits.front(); })) {
      fields.fail(key, "the same limit for every layer, routed and shared");
      return;
    }
  }
  config["swiglu_limit"] = limits.front();
}

void write_moe(GgufFields& fields, json::object& config) {
  GgufConfigWriter writer(fields, config);
  writer.integer("n_routed_experts", "expert_count");
  writer.integer("n_shared_experts", "expert_shared_count");
  writer.integer("num_experts_per_tok", "expert_used_count");
  writer.integer("moe_intermediate_size", "expert_feed_forward_length");
  writer.number("routed_scaling_factor", "expert_weights_scale");
  writer.integer("num_hash_layers", "hash_layer_count");
  bool norm = true;
  fields.read("expert_weights_norm", norm);
  config["norm_topk_prob"] = norm;
  std::int64_t gating = 0;
  fields.require("expert_gating_func", gating, std::int64_t{0}, std::int64_t{INT32_MAX});
  if (fields.status().ok() && gating != kGatingSqrtSoftplus) {
    fields.fail("expert_gating_func", fmt::format("{}, the square root of softplus", kGatingSqrtSoftplus));
  }
  config["scoring_func"] = "sqrtsoftplus";
  write_swiglu_limit(fields, config);
}

Status write_config(const GgufModel&, GgufFields& fields, json::object& config) {
  config["architectures"] = json::array{"DeepseekV4ForCausalLM"};
  config["model_type"] = "deepseek_v4";
  config["num_nextn_predict_layers"] = 0;
  write_attention(fields, config);
  write_moe(fields, config);
  GgufConfigWriter writer(fields, config);
  const std::int64_t streams = writer.integer("hc_mult", "hyper_connection.count");
  writer.integer("hc_sinkhorn_iters", "hyper_connection.sinkhorn_iterations");
  writer.number("hc_eps", "hyper_connection.epsilon");
  SLUICE_RETURN_IF_ERROR(fields.status());
  const std::int64_t width = streams * config["hidden_size"].as_int64();
  std::int64_t found = width;
  fields.read("embedding_length_out", found, 0, INT64_MAX);
  if (found != width) fields.fail("embedding_length_out", fmt::format("the width of all streams, {}", width));
  return fields.status();
}

}  // namespace

const GgufArchitecture kGgufDeepSeek4{"deepseek4", {"layers.{}.", kModelNames, kLayerNames}, write_config};

}  // namespace sluice
