// Used by model_config.h and model_families.cc.
#include "config/deepseek_mla_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "config/config_keys.h"
#include "config/model_config.h"

namespace sluice {
namespace {

// The routing of a family.
enum class Routing { kSoftmax, kSigmoidBias };

void read_attention(ConfigReader& reader, ModelConfig& config, DeepSeekMlaConfig& mla) {
  config.num_key_value_heads = config.num_attention_heads;
  mla.q_lora_rank = reader.maybe_integer("q_lora_rank").value_or(0);
  mla.kv_lora_rank = reader.integer("kv_lora_rank");
  mla.qk_nope_head_dim = reader.integer("qk_nope_head_dim");
  mla.qk_rope_head_dim = reader.integer("qk_rope_head_dim");
  mla.v_head_dim = reader.integer("v_head_dim");
  mla.attention_bias = reader.flag("attention_bias");
  if (mla.qk_rope_head_dim % 2 != 0) reader.fail("qk_rope_head_dim", "an even number");
  config.head_dim = mla.qk_head_dim();  // a "head_dim" in config.json is qk_rope_head_dim, by another name
}

// first_k_dense_replace and moe_layer_freq.
void read_first_sparse_layer(ConfigReader& reader, DeepSeekMlaConfig& mla) {
  const int first = reader.integer("first_k_dense_replace"), every = reader.integer("moe_layer_freq");
  for (std::size_t i = 0; i < mla.sparse_layers.size(); ++i) {
    const int layer = static_cast<int>(i);
    mla.sparse_layers[i] = layer >= first && layer % every == 0;
  }
}

// Reads which layers have experts: from mlp_layer_types if it counts.
void read_sparse_layers(ConfigReader& reader, bool types_win, int layers, DeepSeekMlaConfig& mla) {
  mla.sparse_layers.assign(static_cast<std::size_t>(layers), false);
  if (!reader.given("mlp_layer_types") || (!types_win && reader.given("first_k_dense_replace"))) {
    return read_first_sparse_layer(reader, mla);
  }
  const std::vector<std::string> types = reader.texts("mlp_layer_types");
  if (types.size() < mla.sparse_layers.size()) {
    return reader.fail("mlp_layer_types", fmt::format("a type for each of num_hidden_layers = {}", layers));
  }
  for (std::size_t i = 0; i < mla.sparse_layers.size(); ++i) {
    if (types[i] != "dense" && types[i] != "sparse") reader.fail("mlp_layer_types", "types dense or sparse");
    mla.sparse_layers[i] = types[i] == "sparse";
  }
}

// n_group, topk_group and topk_method.
void read_groups(ConfigReader& reader, Routing routing, MoeConfig& moe) {
  const std::string method = reader.text("topk_method");
  const bool limited = method == "group_limited_greedy";
  if (limited && !reader.given("n_group")) reader.fail("n_group", "the groups of topk_method group_limited_greedy");
  moe.n_group = method == "greedy" ? 1 : reader.maybe_integer("n_group").value_or(1);
  moe.topk_group = 1;
  if (method == "greedy" || !reader.status().ok()) return;
  const std::optional<int> kept = reader.maybe_integer("topk_group");
  if (!kept) return reader.fail("topk_group", "a value");
  if (*kept > moe.n_group)
    return reader.fail("topk_group", fmt::format("an integer from 1 to n_group ({})", moe.n_group));
  if (moe.n_group == 1) return;
  moe.topk_group = *kept;
  const int size = moe.n_routed_experts / moe.n_group;
  if (moe.n_routed_experts % moe.n_group != 0 || (routing == Routing::kSigmoidBias && size < 2)) {
    reader.fail("n_group", fmt::format("a divisor of n_routed_experts ({}) that leaves two experts a group",
                                       moe.n_routed_experts));
  } else if (moe.num_experts_per_tok > size * moe.topk_group) {
    reader.fail("topk_group", fmt::format("groups of {} with at least num_experts_per_tok ({}) experts in all", size,
                                          moe.num_experts_per_tok));
  }
}

void read_moe(ConfigReader& reader, Routing routing, MoeConfig& moe) {
  moe.n_routed_experts = reader.integer("n_routed_experts");
  moe.n_shared_experts = reader.maybe_integer("n_shared_experts").value_or(0);
  moe.num_experts_per_tok = reader.integer("num_experts_per_tok");
  if (moe.num_experts_per_tok > moe.n_routed_experts) {
    reader.fail("num_experts_per_tok", fmt::format("at most n_routed_experts ({})", moe.n_routed_experts));
  }
  moe.moe_intermediate_size = reader.integer("moe_intermediate_size");
  moe.routed_scaling_factor = reader.number("routed_scaling_factor");
  moe.scoring_func = reader.text("scoring_func");
  moe.norm_topk_prob = reader.flag("norm_topk_prob");
  if (routing == Routing::kSoftmax) {  // softmax routing normalises instead of scaling, and never with one expert
    moe.norm_topk_prob = moe.norm_topk_prob && moe.num_experts_per_tok > 1;
    if (moe.norm_topk_prob) moe.routed_scaling_factor = 1.0;
  }
  read_groups(reader, routing, moe);
}

void read_indexer(ConfigReader& reader, DeepSeekMlaConfig& mla) {
  mla.index_n_heads = reader.integer("index_n_heads");
  mla.index_head_dim = reader.integer("index_head_dim");
  mla.index_topk = reader.integer("index_topk");
  if (!std::has_single_bit(static_cast<unsigned>(mla.index_head_dim)) || mla.index_head_dim < mla.qk_rope_head_dim) {
    reader.fail("index_head_dim",
                fmt::format("a power of two of at least qk_rope_head_dim ({})", mla.qk_rope_head_dim));
  }
  for (const std::string& type : reader.texts("layer_types")) {
    if (type != "indexed_attention" && type != "deepseek_sparse_attention") {
      reader.fail("layer_types", "indexed_attention for every layer");
    }
  }
}

Status read(ConfigReader& reader, Routing routing, DeepSeekMlaConfig mla, bool indexed, ModelConfig& config) {
  read_attention(reader, config, mla);
  mla.intermediate_size = reader.integer("intermediate_size");
  read_sparse_layers(reader, indexed, config.num_hidden_layers, mla);
  read_moe(reader, routing, config.moe);
  mla.predict_layers = reader.integer("num_nextn_predict_layers");
  if (indexed) read_indexer(reader, mla);
  SLUICE_RETURN_IF_ERROR(reader.status());
  SLUICE_RETURN_IF_ERROR(read_rope_config(reader, config.max_position_embeddings, mla.qk_rope_head_dim, config.rope));
  config.moe.expert_dtype = config.quantization.fp8 ? "fp8" : "bf16";
  config.family = std::move(mla);
  return {};
}

}  // namespace

Status read_deepseek_v2_config(ConfigReader& reader, ModelConfig& config) {
  DeepSeekMlaConfig mla;
  mla.mlp_bias = reader.flag("mlp_bias");
  return read(reader, Routing::kSoftmax, mla, false, config);
}
Status read_deepseek_v3_config(ConfigReader& reader, ModelConfig& config) {
  DeepSeekMlaConfig mla;
  mla.rope_interleave = reader.flag("rope_interleave");
  return read(reader, Routing::kSigmoidBias, mla, false, config);
}
Status read_deepseek_v32_config(ConfigReader& reader, ModelConfig& config) {
  return read(reader, Routing::kSigmoidBias, {}, true, config);
}

}  // namespace sluice
