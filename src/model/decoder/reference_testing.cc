#include "model/decoder/reference_testing.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <cmath>

#include "model/checks/reference_model_testing.h"

namespace sluice {
namespace {

class Reference : ReferenceModel {
 public:
  explicit Reference(const std::string& folder) : ReferenceModel(folder) {
    heads_ = integer("num_attention_heads");
    shared_by_ = heads_ / integer("num_key_value_heads");
    width_ = config_.contains("head_dim") ? integer("head_dim") : integer("hidden_size") / heads_;
    rotation_ = make_rotation(rope_, width_);
    rounds_head_ = false;  // this family's head takes its inputs as they are
  }

  std::vector<double> logits(std::span<const TokenId> ids) {
    const Rows& embedding = matrix("model.embed_tokens.weight");
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

  // The default profile, each stage from what the model showed before it.
  StageErrors stages(const Recording& run) const {
    StageErrors errors;
    check_residual_stream(
        run, errors, [&](int layer, const Rows& x) { check_attention(run, layer, x, errors); },
        [&](int layer, const Rows& x) { check_feed_forward(run, layer, x, errors); });
    return errors;
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

  Rows biased(Rows y, const std::string& name, bool has_bias) const {
    if (has_bias) add(y, Rows(y.size(), flat(name + ".bias")));
    return y;
  }
  bool qkv_bias() const { return is("qwen2") || flag("attention_bias", false); }
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
    const auto from_x = [&](const std::string& part) {
      return biased(project(x, name + part + ".weight"), name + part, qkv_bias());
    };
    Rows q = from_x("q_proj"), k = from_x("k_proj");
    const Rows v = from_x("v_proj");
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
    return biased(project(out, name + "o_proj.weight"), name + "o_proj", !is("qwen2") && qkv_bias());
  }

  void check_attention(const Recording& run, int layer, const Rows& x, StageErrors& errors) const {
    const std::string name = fmt::format("model.layers.{}.self_attn.", layer);
    const auto from_x = [&](const std::string& part) {
      return biased(default_project(x, name + part + ".weight"), name + part, qkv_bias());
    };
    Rows q = from_x("q_proj"), k = from_x("k_proj"), rows(x.size());
    const Rows v = from_x("v_proj");
    prepare(q, name + "q_norm.weight");
    prepare(k, name + "k_norm.weight");
    const int value_offset = (width_ + 15) / 16 * 16, row = value_offset + width_;  // size of a head's cached row
    for (std::size_t t = 0; t < x.size(); ++t) {
      for (int at = 0; at < static_cast<int>(k[t].size()); at += width_) {
        Row head = part(k[t], at, width_);
        head.resize(static_cast<std::size_t>(value_offset));
        const Row value = part(v[t], at, width_);
        head.insert(head.end(), value.begin(), value.end());
        rows[t].insert(rows[t].end(), head.begin(), head.end());
      }
    }
    errors.add("q", run.rows(layer, "q"), q);
    errors.add("kv", run.rows(layer, "kv"), rows);

    std::vector<Rows> cached;  // by key head
    for (int head = 0; head < heads_ / shared_by_; ++head) {
      Rows& of_head = cached.emplace_back();
      for (const Row& all : run.rows(layer, "kv")) round_bf16(of_head.emplace_back(part(all, head * row, row)));
    }
    Rows out;
    for (int t = 0; t < run.tokens(); ++t) {
      Row& sums = out.emplace_back();
      const int first = std::max(0, hidden_until(layer, t) + 1);
      for (int h = 0; h < heads_; ++h) {
        Split keys;
        for (int s = first; s <= t; ++s) {
          keys.push_back(&cached[static_cast<std::size_t>(h / shared_by_)][static_cast<std::size_t>(s)]);
        }
        const Row query = part(run.rows(layer, "q")[static_cast<std::size_t>(t)], h * width_, width_);
        const Row sum = default_attend(query, splits_of(keys), value_offset, width_, 1 / std::sqrt(double{1} * width_));
        sums.insert(sums.end(), sum.begin(), sum.end());
      }
    }
    errors.add("attn_o", run.rows(layer, "attn_o"), out);
    errors.add("attn_out", run.rows(layer, "attn_out"),
               biased(default_project(run.rows(layer, "attn_o"), name + "o_proj.weight"), name + "o_proj",
                      !is("qwen2") && qkv_bias()));
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

  // The best experts by a softmax over all, divided by their sum if the config asks for it.
  Routes route(const std::string& name, const Row& x) const {
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
    Routes chosen;
    for (const auto& [negative, e] : order) {
      chosen.emplace_back(e, -negative / (flag("norm_topk_prob", false) ? sum : z));
    }
    return chosen;
  }

  Row experts(const std::string& name, const Row& x) const {
    Row out(x.size());
    for (const auto& [e, weight] : route(name, x)) {
      const Row one = swiglu(x, fmt::format("{}experts.{}.", name, e));
      for (std::size_t i = 0; i < out.size(); ++i) out[i] += weight * one[i];
    }
    return out;
  }

  void check_feed_forward(const Recording& run, int layer, const Rows& x, StageErrors& errors) const {
    const std::string name = fmt::format("model.layers.{}.mlp.", layer);
    for (std::size_t t = 0; t < x.size(); ++t) {
      const Row y = is_sparse(layer)
                        ? check_experts(run, layer, static_cast<int>(t), x[t], route(name, x[t]), name, errors)
                        : default_swiglu(x[t], name);
      errors.add("ffn_out", run.rows(layer, "ffn_out")[t], y);
    }
  }

  int heads_ = 0, shared_by_ = 0, width_ = 0;
};

}  // namespace

std::vector<double> decoder_reference_logits(const std::string& folder, std::span<const TokenId> ids) {
  return Reference(folder).logits(ids);
}

StageErrors decoder_default_stages(const std::string& folder, const Recording& run) {
  return Reference(folder).stages(run);
}

}  // namespace sluice
