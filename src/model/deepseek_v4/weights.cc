// Used by model.h.
#include "model/deepseek_v4/weights.h"

#include <fmt/format.h>

#include <algorithm>

namespace sluice::v4 {
namespace {

using Shape = std::vector<std::int64_t>;

// Builds the table. Each add_* call is one tensor of docs/models/deepseek_v4.md §13: official name, transformers name,
// shape.
class TableBuilder {
 public:
  TableBuilder(const ModelConfig& config, const NumericsProfile& profile, const RankGroup& group)
      : c_(config),
        v4_(config.v4()),
        groups_(share_of(group, v4_.o_groups)),
        inputs_(profile.inputs),
        float_inputs_(float_inputs(profile.inputs)),
        expert_inputs_(profile.experts) {
    fp8_ = config.quantization.fp8 ? WeightFormat::kFp8 : WeightFormat::kBf16;
    expert_ = !config.quantization.fp8           ? WeightFormat::kBf16
              : config.moe.expert_dtype == "fp4" ? WeightFormat::kMxfp4
                                                 : WeightFormat::kFp8;
  }

  WeightTable build(Weights& w) {
    table_.push_back(
        {{{"embed.weight", {c_.vocab_size, hidden()}}, {"model.embed_tokens.weight", {c_.vocab_size, hidden()}}},
         {c_.vocab_size, hidden()},
         WeightFormat::kBf16,
         &w.embedding,
         InputForm::kF32,
         0,
         group_});
    linear("head.weight", "lm_head.weight", {c_.vocab_size, hidden()}, WeightFormat::kBf16, w.head, float_inputs_);
    table_.back().role = WeightRole::kLogits;
    floats("norm.weight", "model.norm.weight", {hidden()}, WeightFormat::kBf16, w.norm);
    site("hc_head", "model.hc_head.hc", v4_.hc_mult, 1, w.hc_head, "_");
    w.layers.resize(v4_.layers.size());
    for (std::size_t i = 0; i < v4_.layers.size(); ++i) {
      layer(fmt::format("layers.{}.", i), fmt::format("model.layers.{}.", i), v4_.layers[i], w.layers[i]);
    }
    w.mtp.resize(v4_.mtp_layers.size());
    for (std::size_t i = 0; i < v4_.mtp_layers.size(); ++i) mtp(fmt::format("mtp.{}", i), v4_.mtp_layers[i], w.mtp[i]);
    return std::move(table_);
  }

 private:
  std::int64_t hidden() const { return c_.hidden_size; }

  void add(const std::string& name, const std::string& alias, const Shape& shape, WeightFormat stored,
           decltype(WeightSpec::into) into, InputForm inputs = InputForm::kF32) {
    WeightSpec spec{{{name, shape}}, shape, stored, into, inputs, 0, group_};
    if (!alias.empty()) spec.names.push_back({alias, shape});
    table_.push_back(std::move(spec));
  }
  void linear(const std::string& name, const std::string& alias, const Shape& shape, WeightFormat stored,
              LinearWeight& into, InputForm inputs) {
    add(name, alias, shape, stored, &into, inputs);
  }
  void floats(const std::string& name, const std::string& alias, const Shape& shape, WeightFormat stored,
              Param<float>& into) {
    add(name, alias, shape, stored, &into);
  }

  // Hyper-connection parameters `stem`_fn, _base, _scale; transformers writes `alias`.fn or (for the head) `alias`_fn.
  void site(const std::string& stem, const std::string& alias, int mixes, int scales, HyperConnectionSite& into,
            const std::string& separator) {
    const Shape fn{mixes, v4_.hc_mult * hidden()};
    constexpr int kRows = 16;
    for (int part = 0; part * kRows < mixes; ++part) {
      const std::int64_t first = part * kRows;
      table_.push_back({{{stem + "_fn", fn, first}, {alias + separator + "fn", fn, first}},
                        {std::min<std::int64_t>(kRows, mixes - first), fn[1]},
                        WeightFormat::kF32,
                        &into.op.fn[static_cast<std::size_t>(part)],
                        InputForm::kF32,
                        0,
                        group_});
    }
    floats(stem + "_base", alias + separator + "base", {mixes}, WeightFormat::kF32, into.base);
    floats(stem + "_scale", alias + separator + "scale", {scales}, WeightFormat::kF32, into.scale);
  }

  void compressor(const std::string& name, const std::string& alias, int ratio, int dim, CompressorWeights& into) {
    const int width = (ratio == 4 ? 2 : 1) * dim;
    floats(name + "ape", alias + "position_bias", {ratio, width}, WeightFormat::kF32, into.ape);
    linear(name + "wkv.weight", alias + "kv_proj.weight", {width, hidden()}, WeightFormat::kBf16, into.kv,
           float_inputs_);
    linear(name + "wgate.weight", alias + "gate_proj.weight", {width, hidden()}, WeightFormat::kBf16, into.gate,
           float_inputs_);
    floats(name + "norm.weight", alias + "kv_norm.weight", {dim}, WeightFormat::kBf16, into.norm);
  }

  void indexer(const std::string& name, const std::string& alias, IndexerWeights& into) {
    const int width = v4_.index_n_heads * v4_.index_head_dim;
    compressor(name + "compressor.", alias, 4, v4_.index_head_dim, into.compressor);
    linear(name + "weights_proj.weight", alias + "scorer.weights_proj.weight", {v4_.index_n_heads, hidden()},
           WeightFormat::kBf16, into.head_weights, float_inputs_);
    table_.back().role = WeightRole::kIndexScores;
    table_.back().names.push_back({alias + "weights_proj.weight", {v4_.index_n_heads, hidden()}});  // older releases
    linear(name + "wq_b.weight", alias + "q_b_proj.weight", {width, v4_.q_lora_rank}, fp8_, into.q, inputs_);
    table_.back().role = WeightRole::kIndexScores;
  }

  void attention(const std::string& name, const std::string& alias, int ratio, AttentionWeights& into) {
    const std::int64_t heads = c_.num_attention_heads, q_width = heads * c_.head_dim;
    const std::int64_t group_in = q_width / v4_.o_groups, rank = v4_.o_lora_rank;
    floats(name + "attn_sink", alias + "sinks", {heads}, WeightFormat::kF32, into.sink);
    linear(name + "wq_a.weight", alias + "q_a_proj.weight", {v4_.q_lora_rank, hidden()}, fp8_, into.q_a, inputs_);
    floats(name + "q_norm.weight", alias + "q_a_norm.weight", {v4_.q_lora_rank}, WeightFormat::kBf16, into.q_norm);
    linear(name + "wkv.weight", alias + "kv_proj.weight", {c_.head_dim, hidden()}, fp8_, into.kv, inputs_);
    floats(name + "kv_norm.weight", alias + "kv_norm.weight", {c_.head_dim}, WeightFormat::kBf16, into.kv_norm);
    if (ratio != 0) compressor(name + "compressor.", alias + "compressor.", ratio, c_.head_dim, into.compressor);
    if (ratio == 4) indexer(name + "indexer.", alias + "compressor.indexer.", into.indexer);
    linear(name + "wq_b.weight", alias + "q_b_proj.weight", {q_width, v4_.q_lora_rank}, fp8_, into.q_b, inputs_);
    into.o_a.resize(static_cast<std::size_t>(groups_.count));
    for (std::int64_t own = 0; own < groups_.count; ++own) {
      const std::int64_t g = groups_.first + own;  // block-diagonal: group g is rows [g * rank, (g + 1) * rank)
      const Shape whole{v4_.o_groups * rank, group_in};
      table_.push_back({{{name + "wo_a.weight", whole, g * rank}, {alias + "o_a_proj.weight", whole, g * rank}},
                        {rank, group_in},
                        fp8_,
                        &into.o_a[static_cast<std::size_t>(own)],
                        inputs_,
                        0,
                        group_});
    }
    linear(name + "wo_b.weight", alias + "o_b_proj.weight", {hidden(), v4_.o_groups * rank}, fp8_, into.o_b, inputs_);
  }

  void feed_forward(const std::string& name, const std::string& alias, bool hash, FeedForwardWeights& into) {
    const std::int64_t experts = c_.moe.n_routed_experts, inter = c_.moe.moe_intermediate_size;
    linear(name + "gate.weight", alias + "gate.weight", {experts, hidden()}, WeightFormat::kBf16, into.gate,
           InputForm::kF32);
    if (hash || (c_.moe.routes_by_token && group_.empty())) {
      const Shape shape{c_.vocab_size, c_.moe.num_experts_per_tok};
      table_.push_back({.names = {{name + "gate.tid2eid", shape}, {alias + "gate.tid2eid", shape}},
                        .shape = shape,
                        .into = &into.tid2eid,
                        .id_limit = c_.moe.n_routed_experts,
                        .group = group_});
    } else {
      floats(name + "gate.bias", alias + "gate.e_score_correction_bias", {experts}, WeightFormat::kF32, into.gate_bias);
    }
    into.experts.resize(static_cast<std::size_t>(experts));
    for (std::int64_t e = 0; e < experts; ++e) {
      auto& expert = into.experts[static_cast<std::size_t>(e)];
      const std::string prefix = fmt::format("{}experts.{}.", name, e);
      // transformers stacks gate over up, and all experts in one tensor
      const Shape gate_up{experts, 2 * inter, hidden()}, down{experts, hidden(), inter};
      routed(prefix + "w1.weight", {alias + "experts.gate_up_proj", gate_up, e * 2 * inter}, {inter, hidden()},
             expert.gate);
      routed(prefix + "w3.weight", {alias + "experts.gate_up_proj", gate_up, (e * 2 + 1) * inter}, {inter, hidden()},
             expert.up);
      routed(prefix + "w2.weight", {alias + "experts.down_proj", down, e * hidden()}, {hidden(), inter}, expert.down);
    }
    const std::string shared = name + "shared_experts.", shared_alias = alias + "shared_experts.";
    const std::int64_t shared_inter = inter * c_.moe.n_shared_experts;
    linear(shared + "w1.weight", shared_alias + "gate_proj.weight", {shared_inter, hidden()}, fp8_, into.shared.gate,
           inputs_);
    linear(shared + "w3.weight", shared_alias + "up_proj.weight", {shared_inter, hidden()}, fp8_, into.shared.up,
           inputs_);
    linear(shared + "w2.weight", shared_alias + "down_proj.weight", {hidden(), shared_inter}, fp8_, into.shared.down,
           inputs_);
  }

  void routed(const std::string& name, TensorName stacked, const Shape& shape, LinearWeight& into) {
    table_.push_back({{{name, shape}, std::move(stacked)}, shape, expert_, &into, expert_inputs_, 0, group_, true});
  }

  // Linears in the order in which a step reads them, as they are packed side by side: then what the processor fetches
  // ahead of one is the next one's.
  void layer(const std::string& name, const std::string& alias, const DeepSeekV4Layer& layer, LayerWeights& into) {
    const int mixes = (2 + v4_.hc_mult) * v4_.hc_mult;
    site(name + "hc_attn", alias + "attn_hc", mixes, 3, into.hc_attn, ".");
    floats(name + "attn_norm.weight", alias + "input_layernorm.weight", {hidden()}, WeightFormat::kBf16,
           into.attn_norm);
    floats(name + "ffn_norm.weight", alias + "post_attention_layernorm.weight", {hidden()}, WeightFormat::kBf16,
           into.ffn_norm);
    attention(name + "attn.", alias + "self_attn.", layer.compress_ratio, into.attn);
    site(name + "hc_ffn", alias + "ffn_hc", mixes, 3, into.hc_ffn, ".");
    feed_forward(name + "ffn.", alias + "mlp.", layer.hash_routing, into.ffn);
  }

  // These tensors have no name in transformers, which drops them.
  void mtp(const std::string& name, const DeepSeekV4Layer& block, MtpWeights& into) {
    group_ = name;
    const std::size_t begin = table_.size();
    const std::string prefix = name + ".";
    layer(prefix, prefix, block, into.block);
    linear(prefix + "e_proj.weight", "", {hidden(), hidden()}, fp8_, into.e_proj, inputs_);
    linear(prefix + "h_proj.weight", "", {hidden(), hidden()}, fp8_, into.h_proj, inputs_);
    table_.back().as_int8 = true;  // multiplies four rows for each row of the step
    floats(prefix + "enorm.weight", "", {hidden()}, WeightFormat::kBf16, into.enorm);
    floats(prefix + "hnorm.weight", "", {hidden()}, WeightFormat::kBf16, into.hnorm);
    floats(prefix + "norm.weight", "", {hidden()}, WeightFormat::kBf16, into.norm);
    site(prefix + "hc_head", prefix + "hc_head", v4_.hc_mult, 1, into.hc_head, "_");
    linear("head.weight", "lm_head.weight", {c_.vocab_size, hidden()}, WeightFormat::kBf16, into.head, float_inputs_);
    table_.back().for_drafts = true;
    const Shape mixes{(2 + v4_.hc_mult) * v4_.hc_mult, v4_.hc_mult * hidden()};
    table_.push_back({{{prefix + "hc_attn_fn", mixes}, {prefix + "attn_hc.fn", mixes}},
                      {v4_.hc_mult, mixes[1]},
                      WeightFormat::kF32,
                      &into.key.op.fn.front(),
                      InputForm::kF32,
                      0,
                      group_,
                      false,
                      true});
    group_.clear();
    // Every row leaves its key; everything after that is for drafted rows.
    const auto of_key = [&](const WeightSpec& spec) {
      const std::string& found = spec.names.front().name;
      const auto is = [&](const char* part) { return found.starts_with(prefix + part); };
      return is("e_proj.") || is("h_proj.") || is("attn.wkv.") || (is("hc_attn_fn") && spec.for_drafts);
    };
    for (std::size_t i = begin; i < table_.size(); ++i) {
      if (!of_key(table_[i])) table_[i].role = WeightRole::kDrafted;
    }
  }

  const ModelConfig& c_;
  const DeepSeekV4Config& v4_;
  OutputShare groups_;  // groups of attention heads
  // Inputs of quantised weights, of large weights that are not quantised, and of routed experts.
  InputForm inputs_, float_inputs_, expert_inputs_;
  WeightFormat fp8_, expert_;
  std::string group_;
  WeightTable table_;
};

void tie(HyperConnectionSite& site) {
  site.op.base = site.base.data();
  site.op.scale = site.scale.data();
}

void tie(LayerWeights& layer) {
  tie(layer.hc_attn);
  tie(layer.hc_ffn);
}

}  // namespace

WeightTable weight_table(const ModelConfig& config, const NumericsProfile& profile, Weights& weights,
                         const RankGroup& group) {
  return TableBuilder(config, profile, group).build(weights);
}

void Weights::finish() {
  tie(hc_head);
  for (auto& layer : layers) tie(layer);
  for (auto& layer : mtp) {
    tie(layer.block);
    tie(layer.hc_head);
    layer.key.op.base = layer.block.hc_attn.base.data(), layer.key.op.scale = layer.block.hc_attn.scale.data();
  }
}

std::vector<SharedWeights> shared_weights(const ModelConfig& config, const RankGroup& /*group*/) {
  std::vector<SharedWeights> shared{{".wo_b."}, {".w1."}, {".w2."}, {".w3."}};
  // o_a has whole groups of heads.
  for (const char* by_heads : {".attn.wq_b.", ".attn_sink"}) shared.push_back({by_heads, config.v4().o_groups});
  return shared;
}

}  // namespace sluice::v4
