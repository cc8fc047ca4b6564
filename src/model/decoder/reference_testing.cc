#include "model/decoder/reference_testing.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <cmath>

#include "model/reference_model_testing.h"

namespace sluice {
namespace {

class Reference : ReferenceModel {
 public:
  explicit Reference(const std::string& folder) : ReferenceModel(folder) {
    heads_ = integer("num_attention_heads");
    shared_by_ = heads_ / integer("num_key_value_heads");
    width_ = integer("head_dim");
    make_rope(width_);
  }

  std::vector<double> logits(std::span<const TokenId> ids) {
    const Rows embedding = matrix("model.embed_tokens.weight");
    const double eps = number("rms_norm_eps");
    Rows x;
    for (const TokenId id : ids) x.push_back(embedding[static_cast<std::size_t>(id)]);
    for (int layer = 0; layer < integer("num_hidden_layers"); ++layer) {
      const std::string name = fmt::format("model.layers.{}.", layer);
      add(x, attention(name + "self_attn.", layer, rms(x, name + "input_layernorm.weight", eps)));
      Rows y;
      for (const Row& row : rms(x, name + "post_attention_layernorm.weight", eps)) {
        y.push_back(is_sparse(layer) ? experts(name + "mlp.", row) : swiglu(row, name + "mlp."));
      }
      add(x, y);
    }
    const bool tied = flag("tie_word_embeddings", false);
    std::vector<double> all;
    for (const Row& row :
         project(rms(x, "model.norm.weight", eps), tied ? "model.embed_tokens.weight" : "lm_head.weight"))
      all.insert(all.end(), row.begin(), row.end());
    return all;
  }

 private:
  bool is(const char* type) const { return config_.at("model_type") == type; }
  bool is_sparse(int layer) const {
    if (!is("qwen3_moe") || (layer + 1) % std::max(1, integer("decoder_sparse_step")) != 0) return false;
    const auto* dense = config_.if_contains("mlp_only_layers");
    return dense == nullptr || std::ranges::count(dense->as_array(), boost::json::value(layer)) == 0;
  }
  // The last position that a row does not see any more, or -1.
  int hidden_until(int layer, int position) const {
    const auto* types = config_.if_contains("layer_types");
    const bool slides =
        types != nullptr && types->as_array().at(static_cast<std::size_t>(layer)) == "sliding_attention";
    return slides ? position - integer("sliding_window") : -1;
  }

  Rows biased(const Rows& x, const std::string& name, bool has_bias) const {
    Rows y = project(x, name + ".weight");
    if (has_bias) add(y, Rows(x.size(), flat(name + ".bias")));
    return y;
  }
  // The heads of each row: normed where the family does that, and turned.
  void prepare(Rows& x, const std::string& norm) const {
    for (std::size_t t = 0; t < x.size(); ++t) {
      for (int at = 0; at < static_cast<int>(x[t].size()); at += width_) {
        Row head = part(x[t], at, width_);
        if (is("qwen3") || is("qwen3_moe")) head = rms({head}, norm, number("rms_norm_eps"))[0];
        turn(head, 0, static_cast<int>(t), /*halves=*/true);
        std::ranges::copy(head, x[t].begin() + at);
      }
    }
  }

  Rows attention(const std::string& name, int layer, const Rows& x) const {
    const bool qkv_bias = is("qwen2") || flag("attention_bias", false);
    Rows q = biased(x, name + "q_proj", qkv_bias), k = biased(x, name + "k_proj", qkv_bias);
    const Rows v = biased(x, name + "v_proj", qkv_bias);
    prepare(q, name + "q_norm.weight");
    prepare(k, name + "k_norm.weight");
    Rows out;
    for (int t = 0; t < static_cast<int>(x.size()); ++t) {
      Row& row = out.emplace_back();
      for (int h = 0; h < heads_; ++h) {
        const Row sum = attend(part(q[static_cast<std::size_t>(t)], h * width_, width_), k, v, h / shared_by_ * width_,
                               hidden_until(layer, t) + 1, t);
        row.insert(row.end(), sum.begin(), sum.end());
      }
    }
    return biased(out, name + "o_proj", !is("qwen2") && qkv_bias);
  }

  // Over the keys [first, last] of the head at `offset`.
  Row attend(const Row& query, const Rows& k, const Rows& v, int offset, int first, int last) const {
    first = std::max(first, 0);
    Row weights;
    double most = -1e300, z = 0;
    for (int s = first; s <= last; ++s) {
      weights.push_back(dot(query, part(k[static_cast<std::size_t>(s)], offset, width_)) /
                        std::sqrt(double{1} * width_));
      most = std::max(most, weights.back());
    }
    for (double& w : weights) z += w = std::exp(w - most);
    Row sum(static_cast<std::size_t>(width_));
    for (int s = first; s <= last; ++s) {
      const Row value = part(v[static_cast<std::size_t>(s)], offset, width_);
      for (std::size_t d = 0; d < sum.size(); ++d)
        sum[d] += weights[static_cast<std::size_t>(s - first)] / z * value[d];
    }
    return sum;
  }

  // Softmax over all, the best, divided by their sum if the config says so.
  Row experts(const std::string& name, const Row& x) const {
    const Row score = project({x}, name + "gate.weight")[0];
    double z = 0, sum = 0;
    std::vector<std::pair<double, int>> order;
    for (std::size_t e = 0; e < score.size(); ++e) {
      z += std::exp(score[e]);
      order.emplace_back(-std::exp(score[e]), static_cast<int>(e));
    }
    std::ranges::sort(order);
    order.resize(static_cast<std::size_t>(integer("num_experts_per_tok")));
    for (const auto& [negative, e] : order) sum -= negative;
    Row out(x.size());
    for (const auto& [negative, e] : order) {
      const Row one = swiglu(x, fmt::format("{}experts.{}.", name, e));
      const double weight = -negative / (flag("norm_topk_prob", false) ? sum : z);
      for (std::size_t i = 0; i < out.size(); ++i) out[i] += weight * one[i];
    }
    return out;
  }

  int heads_ = 0, shared_by_ = 0, width_ = 0;
};

}  // namespace

std::vector<double> decoder_reference_logits(const std::string& folder, std::span<const TokenId> ids) {
  return Reference(folder).logits(ids);
}

}  // namespace sluice
