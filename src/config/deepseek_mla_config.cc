#include "config/deepseek_mla_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <boost/json/value.hpp>

#include "config/model_config.h"
#include "files/json_fields.h"

namespace sluice {
namespace {

// How a family routes.
enum class Routing { kSoftmax, kSigmoidBias };

// A key that may be there, but with one value only.
void expect_text(JsonFields& fields, std::string_view key, std::string_view expected) {
  std::string text(expected);
  fields.read(key, text);
  if (text != expected) fields.fail(key, fmt::format("\"{}\"", expected));
}
void expect_false(JsonFields& fields, std::string_view key) {
  bool flag = false;
  fields.read(key, flag);
  if (flag) fields.fail(key, "false");
}

void read_attention(JsonFields& fields, ModelConfig& config, DeepSeekMlaConfig& mla) {
  fields.read("q_lora_rank", mla.q_lora_rank, 1, kMaxWidth);
  fields.require("kv_lora_rank", mla.kv_lora_rank, 1, kMaxWidth);
  fields.require("qk_nope_head_dim", mla.qk_nope_head_dim, 1, 1 << 16);
  fields.require("qk_rope_head_dim", mla.qk_rope_head_dim, 2, 1 << 16);
  fields.require("v_head_dim", mla.v_head_dim, 1, 1 << 16);
  if (mla.qk_rope_head_dim % 2 != 0) fields.fail("qk_rope_head_dim", "an even number");
  fields.read("rope_interleave", mla.rope_interleave);
  expect_false(fields, "attention_bias");
  config.head_dim = mla.qk_head_dim();  // a "head_dim" in config.json is qk_rope_head_dim, by another name
}

// Which layers have experts: first_k_dense_replace and moe_layer_freq, or mlp_layer_types.
void read_sparse_layers(JsonFields& fields, int layers, DeepSeekMlaConfig& mla) {
  mla.sparse_layers.assign(static_cast<std::size_t>(layers), false);
  if (fields.has("first_k_dense_replace") || !fields.has("mlp_layer_types")) {
    int dense = 0, every = 1;
    fields.require("first_k_dense_replace", dense, 0, 1 << 16);
    fields.read("moe_layer_freq", every, 1, 1 << 16);
    for (int i = dense; i < layers; ++i) mla.sparse_layers[static_cast<std::size_t>(i)] = i % every == 0;
    return;
  }
  std::vector<std::string> types;
  fields.read("mlp_layer_types", types);
  if (types.size() < mla.sparse_layers.size()) {
    return fields.fail("mlp_layer_types", fmt::format("a type for each of num_hidden_layers = {}", layers));
  }
  for (std::size_t i = 0; i < mla.sparse_layers.size(); ++i) {
    if (types[i] != "dense" && types[i] != "sparse") fields.fail("mlp_layer_types", "types dense or sparse");
    mla.sparse_layers[i] = types[i] == "sparse";
  }
}

// n_group, topk_group and topk_method.
void read_groups(JsonFields& fields, Routing routing, MoeConfig& moe) {
  fields.read("n_group", moe.n_group, 1, std::max(moe.n_routed_experts, 1));
  if (routing == Routing::kSigmoidBias) {
    expect_text(fields, "topk_method", "noaux_tc");
  } else {
    std::string method = moe.n_group > 1 ? "group_limited_greedy" : "greedy";
    fields.read("topk_method", method);
    if (method == "greedy") {
      moe.n_group = 1;
    } else if (method != "group_limited_greedy") {
      fields.fail("topk_method", "\"greedy\" or \"group_limited_greedy\"");
    }
  }
  moe.topk_group = 1;
  if (moe.n_group == 1) return;
  fields.require("topk_group", moe.topk_group, 1, moe.n_group);
  if (!fields.status().ok()) return;
  const int size = moe.n_routed_experts / moe.n_group;
  if (moe.n_routed_experts % moe.n_group != 0 || (routing == Routing::kSigmoidBias && size < 2)) {
    fields.fail("n_group", fmt::format("a divisor of n_routed_experts ({}) that leaves two experts a group",
                                       moe.n_routed_experts));
  } else if (moe.num_experts_per_tok > size * moe.topk_group) {
    fields.fail("topk_group", fmt::format("groups of {} with at least num_experts_per_tok ({}) experts in all", size,
                                          moe.num_experts_per_tok));
  }
}

void read_moe(JsonFields& fields, Routing routing, MoeConfig& moe) {
  fields.require("n_routed_experts", moe.n_routed_experts, 1, 1 << 16);
  fields.read("n_shared_experts", moe.n_shared_experts, 0, 64);
  fields.require("num_experts_per_tok", moe.num_experts_per_tok, 1, std::max(moe.n_routed_experts, 1));
  fields.require("moe_intermediate_size", moe.moe_intermediate_size, 1, kMaxWidth);
  fields.read("routed_scaling_factor", moe.routed_scaling_factor, 1e-6, 1e6);
  moe.scoring_func = routing == Routing::kSoftmax ? "softmax" : "sigmoid";
  expect_text(fields, "scoring_func", moe.scoring_func);
  moe.norm_topk_prob = routing == Routing::kSigmoidBias;
  fields.read("norm_topk_prob", moe.norm_topk_prob);
  if (routing == Routing::kSoftmax) {  // normalises instead of scaling, and one expert alone never
    moe.norm_topk_prob = moe.norm_topk_prob && moe.num_experts_per_tok > 1;
    if (moe.norm_topk_prob) moe.routed_scaling_factor = 1.0;
  }
  read_groups(fields, routing, moe);
}

void read_indexer(JsonFields& fields, DeepSeekMlaConfig& mla) {
  fields.require("q_lora_rank", mla.q_lora_rank, 1, kMaxWidth);
  fields.require("index_n_heads", mla.index_n_heads, 1, 1 << 16);
  fields.require("index_head_dim", mla.index_head_dim, 1, 1 << 16);
  fields.require("index_topk", mla.index_topk, 1, 1 << 20);
  if (fields.status().ok() &&
      (!std::has_single_bit(static_cast<unsigned>(mla.index_head_dim)) || mla.index_head_dim < mla.qk_rope_head_dim)) {
    fields.fail("index_head_dim",
                fmt::format("a power of two of at least qk_rope_head_dim ({})", mla.qk_rope_head_dim));
  }
}

void check_layer_types(JsonFields& fields, std::string_view expected) {
  std::vector<std::string> types;
  fields.read("layer_types", types);
  if (!std::ranges::all_of(types, [&](const std::string& type) { return type == expected; })) {
    fields.fail("layer_types", fmt::format("{} for every layer", expected));
  }
}

Status read(JsonFields& fields, Routing routing, bool indexed, ModelConfig& config) {
  DeepSeekMlaConfig mla;
  read_attention(fields, config, mla);
  fields.require("intermediate_size", mla.intermediate_size, 1, kMaxWidth);
  read_sparse_layers(fields, config.num_hidden_layers, mla);
  read_moe(fields, routing, config.moe);
  fields.read("num_nextn_predict_layers", mla.predict_layers, 0, kMaxPredictLayers);
  if (indexed) read_indexer(fields, mla);
  check_layer_types(fields, indexed ? "indexed_attention" : "full_attention");
  expect_text(fields, "hidden_act", "silu");
  expect_false(fields, "mlp_bias");
  SLUICE_RETURN_IF_ERROR(fields.status());
  SLUICE_RETURN_IF_ERROR(read_rope_config(fields, config.rope));
  config.moe.expert_dtype = config.quantization.fp8 ? "fp8" : "bf16";
  config.family = std::move(mla);
  return {};
}

}  // namespace

Status read_deepseek_v2_config(JsonFields& fields, ModelConfig& config) {
  return read(fields, Routing::kSoftmax, false, config);
}
Status read_deepseek_v3_config(JsonFields& fields, ModelConfig& config) {
  return read(fields, Routing::kSigmoidBias, false, config);
}
Status read_deepseek_v32_config(JsonFields& fields, ModelConfig& config) {
  return read(fields, Routing::kSigmoidBias, true, config);
}

}  // namespace sluice
