// Used by model.h.
#include "model/decoder/weights.h"

#include <fmt/format.h>

#include "model/decoder/model.h"
#include "model/weights/own_head.h"

namespace sluice::decoder {
namespace {

using Shape = std::vector<std::int64_t>;

class TableBuilder {
 public:
  TableBuilder(const ModelConfig& config, const NumericsProfile& profile)
      : c_(config),
        decoder_(config.decoder()),
        inputs_(profile.inputs),
        head_inputs_(profile.name == kSm90Profile ? float_inputs(profile.inputs) : InputForm::kF32),
        quantised_(config.quantization.fp8 ? WeightFormat::kFp8 : WeightFormat::kBf16) {}

  WeightTable build(Weights& w) {
    const Shape words{c_.vocab_size, hidden()};
    add(kEmbeddingName, words, &w.embedding);
    if (c_.tie_word_embeddings) table_.back().names.push_back({kHeadName, words});
    add(c_.tie_word_embeddings ? kEmbeddingName : kHeadName, words, &w.head);
    if (c_.tie_word_embeddings) table_.back().names.push_back({kHeadName, words});
    table_.back().role = WeightRole::kLogits, table_.back().inputs = head_inputs_;
    add("model.norm.weight", {hidden()}, &w.norm);
    w.layers.resize(decoder_.windows.size());
    for (std::size_t i = 0; i < w.layers.size(); ++i) {
      const std::string name = fmt::format("model.layers.{}.", i);
      add(name + "input_layernorm.weight", {hidden()}, &w.layers[i].attn_norm);
      add(name + "post_attention_layernorm.weight", {hidden()}, &w.layers[i].ffn_norm);
      attention(name + "self_attn.", w.layers[i].attn);
      feed_forward(name + "mlp.", decoder_.sparse_layers[i], w.layers[i].ffn);
    }
    return std::move(table_);
  }

 private:
  std::int64_t hidden() const { return c_.hidden_size; }

  void add(const std::string& name, const Shape& shape, decltype(WeightSpec::into) into) {
    table_.push_back(
        {.names = {{name, shape}}, .shape = shape, .stored = WeightFormat::kBf16, .into = into, .group = {}});
  }
  void linear(const std::string& name, const Shape& shape, LinearWeight& into, bool routed_expert = false) {
    table_.push_back({.names = {{name, shape}},
                      .shape = shape,
                      .stored = quantised_,
                      .into = &into,
                      .inputs = inputs_,
                      .group = {},
                      .routed_expert = routed_expert});
  }
  void biased(const std::string& name, const Shape& shape, bool has_bias, BiasedLinear& into) {
    linear(name + ".weight", shape, into.weight);
    if (has_bias) add(name + ".bias", {shape[0]}, &into.bias);
  }

  void attention(const std::string& name, AttentionWeights& into) {
    const std::int64_t dim = c_.head_dim;
    const std::int64_t queries = c_.num_attention_heads * dim, keys = c_.num_key_value_heads * dim;
    biased(name + "q_proj", {queries, hidden()}, decoder_.qkv_bias, into.q);
    biased(name + "k_proj", {keys, hidden()}, decoder_.qkv_bias, into.k);
    biased(name + "v_proj", {keys, hidden()}, decoder_.qkv_bias, into.v);
    biased(name + "o_proj", {hidden(), queries}, decoder_.o_bias, into.o);
    if (!decoder_.qk_norm) return;
    add(name + "q_norm.weight", {dim}, &into.q_norm);
    add(name + "k_norm.weight", {dim}, &into.k_norm);
  }

  void swiglu(const std::string& name, std::int64_t inter, ExpertWeights& into, bool routed) {
    linear(name + "gate_proj.weight", {inter, hidden()}, into.gate, routed);
    linear(name + "up_proj.weight", {inter, hidden()}, into.up, routed);
    linear(name + "down_proj.weight", {hidden(), inter}, into.down, routed);
  }

  void feed_forward(const std::string& name, bool sparse, FeedForwardWeights& into) {
    if (!sparse) {
      swiglu(name, decoder_.intermediate_size, into.shared, false);
      if (!decoder_.mlp_bias) return;
      add(name + "gate_proj.bias", {decoder_.intermediate_size}, &into.shared_gate_bias);
      add(name + "up_proj.bias", {decoder_.intermediate_size}, &into.shared_up_bias);
      return add(name + "down_proj.bias", {hidden()}, &into.shared_down_bias);
    }
    const std::int64_t experts = c_.moe.n_routed_experts;
    add(name + "gate.weight", {experts, hidden()}, &into.gate);
    if (c_.moe.routes_by_token) {
      const Shape shape{c_.vocab_size, c_.moe.num_experts_per_tok};
      table_.push_back({.names = {{name + "gate.tid2eid", shape}},
                        .shape = shape,
                        .into = &into.tid2eid,
                        .id_limit = c_.moe.n_routed_experts});
    }
    into.experts.resize(static_cast<std::size_t>(experts));
    for (std::int64_t e = 0; e < experts; ++e) {
      swiglu(fmt::format("{}experts.{}.", name, e), c_.moe.moe_intermediate_size,
             into.experts[static_cast<std::size_t>(e)], true);
    }
  }

  const ModelConfig& c_;
  const DecoderConfig& decoder_;
  const InputForm inputs_, head_inputs_;
  const WeightFormat quantised_;
  WeightTable table_;
};

}  // namespace

WeightTable weight_table(const ModelConfig& config, const NumericsProfile& profile, Weights& weights) {
  return TableBuilder(config, profile).build(weights);
}

std::vector<SharedWeights> shared_weights(const ModelConfig& config, const RankGroup& group) {
  std::vector<SharedWeights> shared{{".o_proj."}, {".gate_proj."}, {".up_proj."}, {".down_proj."}};
  const bool dealt = shares_heads(config, group);
  shared.push_back({".q_proj.", dealt ? config.num_attention_heads : 1});
  for (const char* keys : {".k_proj.", ".v_proj."}) {
    shared.push_back({keys, dealt ? config.num_key_value_heads : 1, /*copied=*/dealt});
  }
  return shared;
}

}  // namespace sluice::decoder
