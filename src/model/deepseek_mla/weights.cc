// Used by model.h.
#include "model/deepseek_mla/weights.h"

#include <fmt/format.h>

#include "model/weights/own_head.h"

namespace sluice::mla {
namespace {

using Shape = std::vector<std::int64_t>;

// Builds the table. Each call is one tensor of docs/models/deepseek_v3.md §3: name, shape.
class TableBuilder {
 public:
  TableBuilder(const ModelConfig& config, const NumericsProfile& profile, const RankGroup& group)
      : c_(config),
        mla_(config.mla()),
        heads_(share_of(group, config.num_attention_heads)),
        inputs_(profile.inputs),
        expands_(profile.expand_from > 0),
        quantised_(config.quantization.fp8 ? WeightFormat::kFp8 : WeightFormat::kBf16) {}

  WeightTable build(Weights& w) {
    const Shape words{c_.vocab_size, hidden()};
    add(kEmbeddingName, words, WeightFormat::kBf16, &w.embedding);
    if (c_.tie_word_embeddings) table_.back().names.push_back({kHeadName, words});
    head(words, w.head);
    table_.back().role = WeightRole::kLogits;
    floats("model.norm.weight", {hidden()}, w.norm);
    w.layers.resize(mla_.sparse_layers.size());
    for (std::size_t i = 0; i < w.layers.size(); ++i) {
      layer(fmt::format("model.layers.{}.", i), mla_.sparse_layers[i], w.layers[i]);
    }
    w.mtp.resize(static_cast<std::size_t>(mla_.predict_layers));
    for (std::size_t i = 0; i < w.mtp.size(); ++i) mtp(fmt::format("model.layers.{}", w.layers.size() + i), w.mtp[i]);
    return std::move(table_);
  }

 private:
  std::int64_t hidden() const { return c_.hidden_size; }

  void add(const std::string& name, const Shape& shape, WeightFormat stored, decltype(WeightSpec::into) into,
           InputForm inputs = InputForm::kF32) {
    table_.push_back({{{name, shape}}, shape, stored, into, inputs, 0, group_});
  }
  void floats(const std::string& name, const Shape& shape, Param<float>& into,
              WeightFormat stored = WeightFormat::kBf16) {
    add(name, shape, stored, &into);
  }
  void head(const Shape& words, LinearWeight& into) {
    add(c_.tie_word_embeddings ? kEmbeddingName : kHeadName, words, WeightFormat::kBf16, &into, inputs_);
    if (c_.tie_word_embeddings) table_.back().names.push_back({kHeadName, words});
  }
  // Linears that FP8 checkpoints store in FP8.
  void linear(const std::string& name, const Shape& shape, LinearWeight& into, bool routed_expert = false) {
    table_.push_back({{{name, shape}}, shape, quantised_, &into, inputs_, 0, group_, routed_expert});
  }

  // kv_b has, for each head, qk_nope_head_dim rows of W_UK and v_head_dim rows of W_UV.
  void kv_b(const std::string& name, AttentionWeights& into) {
    const std::int64_t heads = c_.num_attention_heads, nope = mla_.qk_nope_head_dim, values = mla_.v_head_dim;
    const std::int64_t rank = mla_.kv_lora_rank;
    const Shape whole{heads * (nope + values), rank};
    const auto own = static_cast<std::size_t>(heads_.count);
    into.k_up.resize(own);
    into.v_up.resize(own);
    into.k_expand.resize(expands_ ? own : 0);
    for (std::size_t head = 0; head < own; ++head) {
      const std::int64_t first = (heads_.first + static_cast<std::int64_t>(head)) * (nope + values);
      table_.push_back({{{name, whole, first, true}}, {rank, nope}, quantised_, &into.k_up[head], inputs_, 0, group_});
      table_.push_back(
          {{{name, whole, first + nope}}, {values, rank}, quantised_, &into.v_up[head], inputs_, 0, group_});
      if (!expands_) continue;
      table_.push_back({{{name, whole, first}}, {nope, rank}, quantised_, &into.k_expand[head], inputs_, 0, group_});
      table_.back().role = WeightRole::kNotUsed;
    }
  }

  void indexer(const std::string& name, IndexerWeights& into) {
    const std::int64_t heads = mla_.index_n_heads, dim = mla_.index_head_dim;
    linear(name + "wq_b.weight", {heads * dim, mla_.q_lora_rank}, into.q);
    table_.back().role = WeightRole::kIndexScores;
    linear(name + "wk.weight", {dim, hidden()}, into.k);
    floats(name + "k_norm.weight", {dim}, into.k_norm, WeightFormat::kF32);
    floats(name + "k_norm.bias", {dim}, into.k_norm_bias, WeightFormat::kF32);
    add(name + "weights_proj.weight", {heads, hidden()}, WeightFormat::kBf16, &into.head_weights, inputs_);
    table_.back().role = WeightRole::kIndexScores;
  }

  void attention(const std::string& name, AttentionWeights& into) {
    const std::int64_t heads = c_.num_attention_heads, rank = mla_.q_lora_rank;
    const std::int64_t queries = heads * mla_.qk_head_dim();
    if (rank > 0) {
      linear(name + "q_a_proj.weight", {rank, hidden()}, into.q_a);
      if (mla_.attention_bias) floats(name + "q_a_proj.bias", {rank}, into.q_a_bias);
      floats(name + "q_a_layernorm.weight", {rank}, into.q_norm);
      linear(name + "q_b_proj.weight", {queries, rank}, into.q_b);
    } else {
      linear(name + "q_proj.weight", {queries, hidden()}, into.q_b);
    }
    linear(name + "kv_a_proj_with_mqa.weight", {mla_.latent_dim(), hidden()}, into.kv_a);
    if (mla_.attention_bias) {
      floats(name + "kv_a_proj_with_mqa.bias", {mla_.latent_dim()}, into.kv_a_bias);
      floats(name + "o_proj.bias", {hidden()}, into.o_bias);
    }
    floats(name + "kv_a_layernorm.weight", {mla_.kv_lora_rank}, into.kv_norm);
    kv_b(name + "kv_b_proj.weight", into);
    linear(name + "o_proj.weight", {hidden(), heads * mla_.v_head_dim}, into.o);
    if (mla_.index_n_heads > 0) indexer(name + "indexer.", into.indexer);
  }

  void swiglu(const std::string& name, std::int64_t inter, ExpertWeights& into, bool routed = false) {
    linear(name + "gate_proj.weight", {inter, hidden()}, into.gate, routed);
    linear(name + "up_proj.weight", {inter, hidden()}, into.up, routed);
    linear(name + "down_proj.weight", {hidden(), inter}, into.down, routed);
  }

  void mlp_biases(const std::string& name, std::int64_t inter, FeedForwardWeights& into) {
    if (!mla_.mlp_bias) return;
    floats(name + "gate_proj.bias", {inter}, into.shared_gate_bias);
    floats(name + "up_proj.bias", {inter}, into.shared_up_bias);
    floats(name + "down_proj.bias", {hidden()}, into.shared_down_bias);
  }

  void feed_forward(const std::string& name, bool sparse, FeedForwardWeights& into) {
    if (!sparse) {
      swiglu(name, mla_.intermediate_size, into.shared);
      return mlp_biases(name, mla_.intermediate_size, into);
    }
    const std::int64_t experts = c_.moe.n_routed_experts;
    add(name + "gate.weight", {experts, hidden()}, WeightFormat::kBf16, &into.gate);
    if (c_.moe.routes_by_token && group_.empty()) {
      const Shape shape{c_.vocab_size, c_.moe.num_experts_per_tok};
      table_.push_back({.names = {{name + "gate.tid2eid", shape}},
                        .shape = shape,
                        .into = &into.tid2eid,
                        .id_limit = c_.moe.n_routed_experts});
    }
    if (c_.moe.scoring_func == "sigmoid") {
      floats(name + "gate.e_score_correction_bias", {experts}, into.gate_bias, WeightFormat::kF32);
    }
    into.experts.resize(static_cast<std::size_t>(experts));
    for (std::int64_t e = 0; e < experts; ++e) {
      swiglu(fmt::format("{}experts.{}.", name, e), c_.moe.moe_intermediate_size,
             into.experts[static_cast<std::size_t>(e)], true);
    }
    const int shared = c_.moe.n_shared_experts;
    if (shared == 0) return;
    swiglu(name + "shared_experts.", c_.moe.moe_intermediate_size * shared, into.shared);
    mlp_biases(name + "shared_experts.", c_.moe.moe_intermediate_size * shared, into);
  }

  void layer(const std::string& name, bool sparse, LayerWeights& into) {
    floats(name + "input_layernorm.weight", {hidden()}, into.attn_norm);
    floats(name + "post_attention_layernorm.weight", {hidden()}, into.ffn_norm);
    attention(name + "self_attn.", into.attn);
    feed_forward(name + "mlp.", sparse, into.ffn);
  }

  void mtp(const std::string& name, MtpWeights& into) {
    group_ = name;
    const std::size_t begin = table_.size();
    const Shape words{c_.vocab_size, hidden()};
    add(name + ".eh_proj.weight", {hidden(), 2 * hidden()}, WeightFormat::kBf16, &into.eh_proj);
    floats(name + ".enorm.weight", {hidden()}, into.enorm);
    floats(name + ".hnorm.weight", {hidden()}, into.hnorm);
    floats(name + ".shared_head.norm.weight", {hidden()}, into.norm);
    add(name + ".embed_tokens.weight", words, WeightFormat::kBf16, &into.embedding);
    table_.back().left = true;
    add(name + ".shared_head.head.weight", words, WeightFormat::kBf16, &into.own_head, inputs_);
    table_.back().left = true;
    head(words, into.head);
    table_.back().for_drafts = true;
    layer(name + ".", true, into.block);
    group_.clear();
    // Every row leaves its latent and its index key; everything after these is for drafted rows.
    const auto of_key = [&](const WeightSpec& spec) {
      const std::string& found = spec.names.front().name;
      const auto is = [&](const char* part) { return found.starts_with(name + part); };
      return is(".eh_proj.") || is(".self_attn.kv_a_proj_with_mqa.") || is(".self_attn.indexer.wk.");
    };
    for (std::size_t i = begin; i < table_.size(); ++i) {
      if (!of_key(table_[i])) table_[i].role = WeightRole::kDrafted;
    }
  }

  const ModelConfig& c_;
  const DeepSeekMlaConfig& mla_;
  OutputShare heads_;  // attention heads of this rank
  InputForm inputs_;
  bool expands_;
  WeightFormat quantised_;
  std::string group_;
  WeightTable table_;
};

}  // namespace

WeightTable weight_table(const ModelConfig& config, const NumericsProfile& profile, Weights& weights,
                         const RankGroup& group) {
  return TableBuilder(config, profile, group).build(weights);
}

std::vector<SharedWeights> shared_weights(const ModelConfig& config, const RankGroup& /*group*/) {
  std::vector<SharedWeights> shared{{".o_proj."}, {".gate_proj."}, {".up_proj."}, {".down_proj."}};
  for (const char* queries : {".q_proj.", ".q_b_proj."}) shared.push_back({queries, config.num_attention_heads});
  return shared;
}

}  // namespace sluice::mla
