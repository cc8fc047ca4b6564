#include "model/deepseek_mla/reference_testing.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "base/number_formats.h"
#include "model/reference_model_testing.h"

namespace sluice {
namespace {

using Row = std::vector<double>;

// x / s * s with e4m3 codes and a power of two s, over [first, first + count).
void round_e4m3(Row& x, int first, int count) {
  float most = 1e-4F;
  for (int i = first; i < first + count; ++i) most = std::max(most, std::fabs(static_cast<float>(x[std::size_t(i)])));
  const double scale = std::exp2(std::ceil(std::log2(static_cast<double>(most * (1.0F / 448.0F)))));
  for (int i = first; i < first + count; ++i) {
    double& value = x[static_cast<std::size_t>(i)];
    value = static_cast<double>(e4m3_to_float(float_to_e4m3(static_cast<float>(value / scale)))) * scale;
  }
}

void hadamard(Row& x) {
  const Row before = x;
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = 0;
    for (std::size_t j = 0; j < x.size(); ++j) x[i] += std::popcount(i & j) % 2 == 0 ? before[j] : -before[j];
    x[i] /= std::sqrt(static_cast<double>(x.size()));
  }
}

class Reference : ReferenceModel {
 public:
  Reference(const std::string& folder, const ReferenceOptions& options) : ReferenceModel(folder), options_(options) {
    heads_ = integer("num_attention_heads");
    nope_ = integer("qk_nope_head_dim");
    rope_dims_ = integer("qk_rope_head_dim");
    rank_ = integer("kv_lora_rank");
    values_ = integer("v_head_dim");
    make_rope(rope_dims_);
    const double all = number_of(rope_, "mscale_all_dim", 0), factor = number_of(rope_, "factor", 1);
    const double g = all != 0 && factor > 1 ? 0.1 * all * std::log(factor) + 1 : 1;
    softmax_scale_ = g * g / std::sqrt(static_cast<double>(nope_ + rope_dims_));
  }

  std::vector<double> logits(std::span<const TokenId> ids) {
    const Rows embedding = matrix("model.embed_tokens.weight");
    Rows x;
    for (const TokenId id : ids) x.push_back(embedding[static_cast<std::size_t>(id)]);
    for (int layer = 0; layer < integer("num_hidden_layers"); ++layer) {
      const std::string name = fmt::format("model.layers.{}.", layer);
      add(x, attention(name + "self_attn.", rms(x, name + "input_layernorm.weight", number("rms_norm_eps"))));
      add(x,
          feed_forward(name + "mlp.", layer, rms(x, name + "post_attention_layernorm.weight", number("rms_norm_eps"))));
    }
    const Rows out = project(rms(x, "model.norm.weight", number("rms_norm_eps")), "lm_head.weight");
    std::vector<double> flat;
    for (const Row& row : out) flat.insert(flat.end(), row.begin(), row.end());
    return flat;
  }

 private:
  Rows attention(const std::string& name, const Rows& x) const {
    const bool lora = integer("q_lora_rank") > 0;
    const Rows q_a = lora ? rms(project(x, name + "q_a_proj.weight"), name + "q_a_layernorm.weight", 1e-6) : x;
    Rows q = project(q_a, name + (lora ? "q_b_proj.weight" : "q_proj.weight"));
    const Rows joint = project(x, name + "kv_a_proj_with_mqa.weight");
    Rows latent, shared_key;
    for (std::size_t t = 0; t < x.size(); ++t) {
      latent.push_back(part(joint[t], 0, rank_));
      shared_key.push_back(part(joint[t], rank_, rope_dims_));
      turn(shared_key[t], 0, static_cast<int>(t), false);
      for (int h = 0; h < heads_; ++h) turn(q[t], h * (nope_ + rope_dims_) + nope_, static_cast<int>(t), false);
    }
    latent = rms(latent, name + "kv_a_layernorm.weight", 1e-6);
    if (options_.bf16_rotary) {
      for (Row& key : shared_key) {
        for (double& value : key) value = static_cast<double>(round_to_bf16(static_cast<float>(value)));
      }
    }
    if (options_.as_trained) {
      for (Row& c : latent) {
        for (int i = 0; i < rank_; i += 128) round_e4m3(c, i, std::min(128, rank_ - i));
      }
    }
    const Rows up = project(latent, name + "kv_b_proj.weight");
    const bool indexed = integer("index_topk") > 0;
    const auto seen = indexed ? best_keys(name + "indexer.", x, q_a) : std::vector<std::vector<int>>();
    Rows out;
    for (std::size_t t = 0; t < x.size(); ++t) {
      std::vector<int> keys(t + 1);
      std::iota(keys.begin(), keys.end(), 0);
      out.push_back(attend(q[t], indexed ? seen[t] : keys, up, shared_key));
    }
    return project(out, name + "o_proj.weight");
  }

  Row attend(const Row& q, const std::vector<int>& keys, const Rows& up, const Rows& shared_key) const {
    Row out;
    for (int h = 0; h < heads_; ++h) {
      const Row plain = part(q, h * (nope_ + rope_dims_), nope_);
      const Row turned = part(q, h * (nope_ + rope_dims_) + nope_, rope_dims_);
      Row weights, sum(static_cast<std::size_t>(values_));
      for (const int key : keys) {
        const auto s = static_cast<std::size_t>(key);
        const Row k = part(up[s], h * (nope_ + values_), nope_);
        weights.push_back((dot(plain, k) + dot(turned, shared_key[s])) * softmax_scale_);
      }
      const double most = *std::max_element(weights.begin(), weights.end());
      double z = 0;
      for (double& w : weights) z += w = std::exp(w - most);
      for (std::size_t i = 0; i < keys.size(); ++i) {
        const Row v = part(up[static_cast<std::size_t>(keys[i])], h * (nope_ + values_) + nope_, values_);
        for (std::size_t d = 0; d < v.size(); ++d) sum[d] += weights[i] / z * v[d];
      }
      out.insert(out.end(), sum.begin(), sum.end());
    }
    return out;
  }

  // The keys that each token attends to.
  std::vector<std::vector<int>> best_keys(const std::string& name, const Rows& x, const Rows& q_a) const {
    const int heads = integer("index_n_heads"), dim = integer("index_head_dim");
    const Rows q = project(q_a, name + "wq_b.weight"), weights = project(x, name + "weights_proj.weight");
    Rows k = project(x, name + "wk.weight");
    const Row norm = flat(name + "k_norm.weight"), bias = flat(name + "k_norm.bias");
    std::vector<std::vector<int>> seen;
    for (std::size_t t = 0; t < x.size(); ++t) {
      Row& key = k[t];
      const double mean = std::accumulate(key.begin(), key.end(), 0.0) / dim;
      double variance = 0;
      for (const double value : key) variance += (value - mean) * (value - mean) / dim;
      for (std::size_t i = 0; i < key.size(); ++i) {
        key[i] = (key[i] - mean) / std::sqrt(variance + 1e-6) * norm[i] + bias[i];
      }
      index_form(key, static_cast<int>(t));
      std::vector<std::pair<double, int>> scores;  // negated, so that the best comes first and then the lower key
      for (std::size_t s = 0; s <= t; ++s) scores.emplace_back(0.0, static_cast<int>(s));
      for (int h = 0; h < heads; ++h) {
        Row query = part(q[t], h * dim, dim);
        index_form(query, static_cast<int>(t));
        for (auto& [score, s] : scores) {
          const double weight = weights[t][static_cast<std::size_t>(h)] / std::sqrt(double{1} * heads * dim);
          score -= weight * std::max(0.0, dot(query, k[static_cast<std::size_t>(s)]));
        }
      }
      std::sort(scores.begin(), scores.end());
      scores.resize(std::min(scores.size(), static_cast<std::size_t>(integer("index_topk"))));
      std::vector<int>& keys = seen.emplace_back();
      for (const auto& [score, s] : scores) keys.push_back(s);
    }
    return seen;
  }
  void index_form(Row& x, int position) const {
    turn(x, 0, position, true);
    if (!options_.as_trained) return;
    hadamard(x);
    round_e4m3(x, 0, static_cast<int>(x.size()));
  }

  Rows feed_forward(const std::string& name, int layer, const Rows& x) const {
    const bool sparse = layer >= integer("first_k_dense_replace");
    Rows y;
    for (const Row& row : x) {
      if (!sparse) {
        y.push_back(swiglu(row, name));
        continue;
      }
      Row& out = y.emplace_back(swiglu(row, name + "shared_experts."));
      for (const auto& [expert, weight] : route(name, row)) {
        const Row one = swiglu(row, fmt::format("{}experts.{}.", name, expert));
        for (std::size_t i = 0; i < out.size(); ++i) out[i] += weight * one[i];
      }
    }
    return y;
  }

  std::vector<std::pair<int, double>> route(const std::string& name, const Row& x) const {
    const bool sigmoid = config_.at("model_type") != "deepseek_v2";
    const int experts = integer("n_routed_experts"), slots = integer("num_experts_per_tok");
    Row score = project({x}, name + "gate.weight")[0];
    double z = 0;
    for (double& s : score) z += s = sigmoid ? 1 / (1 + std::exp(-s)) : std::exp(s);
    if (!sigmoid) std::for_each(score.begin(), score.end(), [z](double& s) { s /= z; });
    Row choice = score;
    if (sigmoid) {
      const Row bias = flat(name + "gate.e_score_correction_bias");
      for (std::size_t e = 0; e < bias.size(); ++e) choice[e] += bias[e];
    }
    const int groups = std::max(1, integer("n_group")), size = experts / groups;
    std::vector<std::pair<double, int>> ranked;
    for (int g = 0; g < groups; ++g) {
      Row members = part(choice, g * size, size);
      std::sort(members.rbegin(), members.rend());
      ranked.emplace_back(-(sigmoid && groups > 1 ? members[0] + members[1] : members[0]), g);
    }
    std::sort(ranked.begin(), ranked.end());
    std::vector<std::pair<double, int>> order;
    for (int i = 0; i < (groups > 1 ? integer("topk_group") : 1); ++i) {
      for (int e = 0; e < size; ++e) {
        const int expert = ranked[static_cast<std::size_t>(i)].second * size + e;
        order.emplace_back(-choice[static_cast<std::size_t>(expert)], expert);
      }
    }
    std::sort(order.begin(), order.end());
    const bool normalise = flag("norm_topk_prob", sigmoid);
    std::vector<std::pair<int, double>> chosen;
    double sum = 0;
    for (int i = 0; i < slots; ++i) {
      const int expert = order[static_cast<std::size_t>(i)].second;
      chosen.emplace_back(expert, score[static_cast<std::size_t>(expert)]);
      sum += chosen.back().second;
    }
    const double factor = number("routed_scaling_factor", 1);
    for (auto& [expert, weight] : chosen) {
      if (normalise) weight /= sum;
      if (sigmoid || !normalise) weight *= factor;
    }
    return chosen;
  }

  ReferenceOptions options_;
  int heads_ = 0, nope_ = 0, rope_dims_ = 0, rank_ = 0, values_ = 0;
  double softmax_scale_ = 1;
};

}  // namespace

std::vector<double> mla_reference_logits(const std::string& folder, std::span<const TokenId> ids,
                                         const ReferenceOptions& options) {
  return Reference(folder, options).logits(ids);
}

}  // namespace sluice
