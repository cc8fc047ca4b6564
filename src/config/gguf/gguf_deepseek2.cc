// DeepSeek-V2, V3 and R1 in GGUF files. The up-projection of keys and values comes whole (attn_kv_b) or split
// (attn_k_b, attn_v_b); which it is shows in the keys that give the sizes of heads.
// Used by cli/commands, config, config/gguf and model.
#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "config/gguf/gguf_config.h"

namespace sluice {
namespace {

namespace json = boost::json;

constexpr std::int64_t kGatingSoftmax = 1, kGatingSigmoid = 2;

constexpr GgufName kModelNames[] = {
    {"token_embd.weight", "model.embed_tokens.weight"},
    {"output_norm.weight", "model.norm.weight"},
    {"output.weight", "lm_head.weight"},
};

constexpr GgufName kLayerNames[] = {
    {"attn_norm.weight", "input_layernorm.weight"},
    {"ffn_norm.weight", "post_attention_layernorm.weight"},
    {"attn_q.weight", "self_attn.q_proj.weight"},
    {"attn_q_a.weight", "self_attn.q_a_proj.weight"},
    {"attn_q_a_norm.weight", "self_attn.q_a_layernorm.weight"},
    {"attn_q_b.weight", "self_attn.q_b_proj.weight"},
    {"attn_kv_a_mqa.weight", "self_attn.kv_a_proj_with_mqa.weight"},
    {"attn_kv_a_norm.weight", "self_attn.kv_a_layernorm.weight"},
    {"attn_kv_b.weight", "self_attn.kv_b_proj.weight"},
    {"attn_k_b.weight", "self_attn.kv_b_proj.weight", GgufLayout::kSplitKeys},
    {"attn_v_b.weight", "self_attn.kv_b_proj.weight", GgufLayout::kSplitValues},
    {"attn_output.weight", "self_attn.o_proj.weight"},
    {"ffn_gate.weight", "mlp.gate_proj.weight"},
    {"ffn_up.weight", "mlp.up_proj.weight"},
    {"ffn_down.weight", "mlp.down_proj.weight"},
    {"ffn_gate_inp.weight", "mlp.gate.weight"},
    {"exp_probs_b.bias", "mlp.gate.e_score_correction_bias"},
    {"ffn_gate_exps.weight", "mlp.experts.{}.gate_proj.weight", GgufLayout::kExperts},
    {"ffn_up_exps.weight", "mlp.experts.{}.up_proj.weight", GgufLayout::kExperts},
    {"ffn_down_exps.weight", "mlp.experts.{}.down_proj.weight", GgufLayout::kExperts},
    {"ffn_gate_shexp.weight", "mlp.shared_experts.gate_proj.weight"},
    {"ffn_up_shexp.weight", "mlp.shared_experts.up_proj.weight"},
    {"ffn_down_shexp.weight", "mlp.shared_experts.down_proj.weight"},
};

// Split files count one key head of the whole latent row and give the sizes of real heads apart.
void write_attention(GgufFields& fields, json::object& config) {
  GgufConfigWriter writer(fields, config);
  if (fields.has("attention.q_lora_rank")) {
    writer.integer("q_lora_rank", "attention.q_lora_rank");
  } else {
    config["q_lora_rank"] = nullptr;
  }
  writer.integer("kv_lora_rank", "attention.kv_lora_rank");
  config["num_key_value_heads"] = config["num_attention_heads"];
  const std::int64_t rope = writer.integer("qk_rope_head_dim", "rope.dimension_count");
  const bool split = fields.has("attention.key_length_mla");
  const std::string_view key = split ? "attention.key_length_mla" : "attention.key_length";
  const std::int64_t length = writer.integer("qk_nope_head_dim", key);
  if (fields.status().ok() && length <= rope) fields.fail(key, fmt::format("more than the {} rotated dims", rope));
  config["qk_nope_head_dim"] = length - rope;
  writer.integer("v_head_dim", split ? "attention.value_length_mla" : "attention.value_length");
}

// YaRN's multiplier is 0.1 x mscale_all_dim; the files of this architecture have no other mscale, as every checkpoint
// has the two equal. Without it neither the rotation nor the softmax is scaled.
void write_rope(GgufFields& fields, json::object& config) {
  GgufConfigWriter writer(fields, config);
  json::object* yarn = writer.rope();
  if (yarn == nullptr) return;
  if (fields.has("rope.scaling.yarn_log_multiplier")) {
    double multiplier = 0;
    fields.read("rope.scaling.yarn_log_multiplier", multiplier);
    (*yarn)["mscale"] = (*yarn)["mscale_all_dim"] = multiplier * 10.0;
  } else {
    (*yarn)["attention_factor"] = 1.0;
  }
}

// Softmax is V2's routing, sigmoid V3's.
bool write_family(GgufFields& fields, json::object& config) {
  std::int64_t gating = kGatingSoftmax;
  fields.read("expert_gating_func", gating, 0, INT32_MAX);
  if (gating != kGatingSoftmax && gating != kGatingSigmoid) {
    fields.fail("expert_gating_func", fmt::format("{} (softmax) or {} (sigmoid)", kGatingSoftmax, kGatingSigmoid));
  }
  const bool v3 = gating == kGatingSigmoid;
  config["architectures"] = json::array{v3 ? "DeepseekV3ForCausalLM" : "DeepseekV2ForCausalLM"};
  config["model_type"] = v3 ? "deepseek_v3" : "deepseek_v2";
  config["scoring_func"] = v3 ? "sigmoid" : "softmax";
  return v3;
}

void write_moe(GgufFields& fields, json::object& config) {
  GgufConfigWriter writer(fields, config);
  const bool v3 = write_family(fields, config);
  writer.integer("first_k_dense_replace", "leading_dense_block_count");
  writer.integer("intermediate_size", "feed_forward_length");
  writer.integer("n_routed_experts", "expert_count");
  writer.integer("n_shared_experts", "expert_shared_count");
  writer.integer("num_experts_per_tok", "expert_used_count");
  writer.integer("moe_intermediate_size", "expert_feed_forward_length");
  writer.number("routed_scaling_factor", "expert_weights_scale", 1.0);
  bool norm = false;
  fields.read("expert_weights_norm", norm);
  config["norm_topk_prob"] = norm;
  config["moe_layer_freq"] = 1;
  std::int64_t groups = 1;
  fields.read("expert_group_count", groups, 0, INT32_MAX);
  if (groups > 1) {
    writer.integer("n_group", "expert_group_count");
    writer.integer("topk_group", "expert_group_used_count");
  } else {
    config["n_group"] = config["topk_group"] = 1;
  }
  config["topk_method"] = v3 ? "noaux_tc" : (groups > 1 ? "group_limited_greedy" : "greedy");
}

Status write_config(const GgufModel&, GgufFields& fields, json::object& config) {
  write_attention(fields, config);
  write_moe(fields, config);
  write_rope(fields, config);
  config["num_nextn_predict_layers"] = 0;
  config["attention_bias"] = false;
  return fields.status();
}

}  // namespace

const GgufArchitecture kGgufDeepSeek2{"deepseek2", {"model.layers.{}.", kModelNames, kLayerNames}, write_config};

}  // namespace sluice
