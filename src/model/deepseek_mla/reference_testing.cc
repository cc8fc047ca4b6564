#include "model/deepseek_mla/reference_testing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "model/checks/reference_model_testing.h"

namespace sluice {
namespace {

class Reference : ReferenceModel {
 public:
  Reference(const std::string& folder, const ReferenceOptions& options) : ReferenceModel(folder), options_(options) {
    heads_ = integer("num_attention_heads");
    nope_ = integer("qk_nope_head_dim");
    rope_dims_ = integer("qk_rope_head_dim");
    rank_ = integer("kv_lora_rank");
    values_ = integer("v_head_dim");
    rotation_ = make_rotation(rope_, rope_dims_);
    const double all = number_of(rope_, "mscale_all_dim", 0), factor = number_of(rope_, "factor", 1);
    const double g = all != 0 && factor > 1 ? 0.1 * all * std::log(factor) + 1 : 1;
    softmax_scale_ = g * g / std::sqrt(static_cast<double>(nope_ + rope_dims_));
  }

  std::vector<double> logits(std::span<const TokenId> ids) {
    const Rows out = project(hidden(ids), "lm_head.weight");
    std::vector<double> flat;
    for (const Row& row : out) flat.insert(flat.end(), row.begin(), row.end());
    return flat;
  }

  std::vector<double> drafts(std::span<const TokenId> ids, int known) {
    const int layer = integer("num_hidden_layers");
    const std::string name = fmt::format("model.layers.{}.", layer);
    Rows before = hidden(ids.first(static_cast<std::size_t>(known)));  // row t goes with token t + 1
    std::vector<double> flat;
    for (std::size_t newest = before.size(); newest < ids.size(); ++newest) {
      Rows both;
      for (std::size_t t = 0; t < before.size(); ++t) {
        Row row = rms({embedding_of(ids[t + 1])}, name + "enorm.weight", number("rms_norm_eps"))[0];
        const Row half = rms({before[t]}, name + "hnorm.weight", number("rms_norm_eps"))[0];
        row.insert(row.end(), half.begin(), half.end());
        both.push_back(std::move(row));
      }
      Rows x = project(both, name + "eh_proj.weight");
      block(layer, x);
      before.push_back(rms({x.back()}, name + "shared_head.norm.weight", number("rms_norm_eps"))[0]);
      const Row out = project({before.back()}, "lm_head.weight")[0];
      flat.insert(flat.end(), out.begin(), out.end());
    }
    return flat;
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
  const Row& embedding_of(TokenId id) const {
    return matrix("model.embed_tokens.weight")[static_cast<std::size_t>(id)];
  }

  // The inputs of the head.
  Rows hidden(std::span<const TokenId> ids) const {
    Rows x;
    for (const TokenId id : ids) x.push_back(embedding_of(id));
    for (int layer = 0; layer < integer("num_hidden_layers"); ++layer) block(layer, x);
    return rms(x, "model.norm.weight", number("rms_norm_eps"));
  }

  void block(int layer, Rows& x) const {
    const std::string name = fmt::format("model.layers.{}.", layer);
    add(x, attention(name + "self_attn.", rms(x, name + "input_layernorm.weight", number("rms_norm_eps"))));
    add(x,
        feed_forward(name + "mlp.", layer, rms(x, name + "post_attention_layernorm.weight", number("rms_norm_eps"))));
  }

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
      for (Row& key : shared_key) round_bf16(key);
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
      layer_norm(k[t], norm, bias);
      index_form(k[t], static_cast<int>(t));
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
  static void layer_norm(Row& x, const Row& norm, const Row& bias) {
    const auto dim = static_cast<double>(x.size());
    const double mean = std::accumulate(x.begin(), x.end(), 0.0) / dim;
    double variance = 0;
    for (const double value : x) variance += (value - mean) * (value - mean) / dim;
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = (x[i] - mean) / std::sqrt(variance + 1e-6) * norm[i] + bias[i];
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

  Routes route(const std::string& name, const Row& x) const {
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
    Routes chosen;
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

  // Latent rows are FP8 with an indexer, as the model was trained, and bf16 without; rotary dims are bf16.
  void store(Row& latent) const {
    if (indexed()) {
      for (int i = 0; i < rank_; i += 128) round_e4m3(latent, i, std::min(128, rank_ - i));
      round_bf16(latent, rank_, rope_dims_);
    } else {
      round_bf16(latent);
    }
  }
  bool indexed() const { return integer("index_topk") > 0; }

  void check_attention(const Recording& run, int layer, const Rows& x, StageErrors& errors) const {
    const std::string name = fmt::format("model.layers.{}.self_attn.", layer);
    const bool lora = integer("q_lora_rank") > 0;
    const Rows q_a = lora ? rms(default_project(x, name + "q_a_proj.weight"), name + "q_a_layernorm.weight", 1e-6) : x;
    Rows q = default_project(q_a, name + (lora ? "q_b_proj.weight" : "q_proj.weight"));
    Rows latent = default_project(x, name + "kv_a_proj_with_mqa.weight");
    for (std::size_t t = 0; t < x.size(); ++t) {
      const int position = static_cast<int>(t);
      for (int h = 0; h < heads_; ++h) turn(q[t], h * (nope_ + rope_dims_) + nope_, position, false);
      const Row normed = rms({part(latent[t], 0, rank_)}, name + "kv_a_layernorm.weight", 1e-6)[0];
      std::copy(normed.begin(), normed.end(), latent[t].begin());
      turn(latent[t], rank_, position, false);
    }
    errors.add("q", run.rows(layer, "q"), q);
    errors.add("kv", run.rows(layer, "kv"), latent);
    if (indexed()) check_indexer(run, layer, x, q_a, errors);

    q = run.rows(layer, "q");
    latent = run.rows(layer, "kv");
    for (Row& row : latent) store(row);
    Rows values;
    for (int t = 0; t < run.tokens(); ++t) {
      values.push_back(absorbed_attention(q[static_cast<std::size_t>(t)], matrix(name + "kv_b_proj.weight"),
                                          keys_of(run, layer, t, latent)));
    }
    errors.add("attn_o", run.rows(layer, "attn_o"), values);
    errors.add("attn_out", run.rows(layer, "attn_out"),
               default_project(run.rows(layer, "attn_o"), name + "o_proj.weight"));
  }

  // The rows that a token attends to: those that the scores shown choose, and all while there are few.
  Split keys_of(const Recording& run, int layer, int position, const Rows& latent) const {
    const int visible = position + 1, most = indexed() ? integer("index_topk") : visible;
    const Row* scores = run.at(layer, "index_scores", position);
    Split keys;
    if (visible <= most) {
      for (int s = 0; s < visible; ++s) keys.push_back(&latent[static_cast<std::size_t>(s)]);
    } else {
      for (const int s : best(*scores, visible, most)) keys.push_back(&latent[static_cast<std::size_t>(s)]);
    }
    return keys;
  }

  // A head's query goes to the latent's side by W_UK, and what it finds comes back by W_UV; both linears round.
  Row absorbed_attention(const Row& q, const Rows& up, const Split& keys) const {
    Row values;
    for (int h = 0; h < heads_; ++h) {
      Row plain = part(q, h * (nope_ + rope_dims_), nope_), query(static_cast<std::size_t>(rank_));
      round_bf16(plain);
      for (int d = 0; d < nope_; ++d) {
        const Row& weight = up[static_cast<std::size_t>(h * (nope_ + values_) + d)];
        for (std::size_t r = 0; r < query.size(); ++r) query[r] += weight[r] * plain[static_cast<std::size_t>(d)];
      }
      const Row turned = part(q, h * (nope_ + rope_dims_) + nope_, rope_dims_);
      query.insert(query.end(), turned.begin(), turned.end());
      Row found = default_attend(query, splits_of(keys), 0, rank_, softmax_scale_);
      round_bf16(found);
      for (int d = 0; d < values_; ++d) {
        values.push_back(dot(up[static_cast<std::size_t>(h * (nope_ + values_) + nope_ + d)], found));
      }
    }
    return values;
  }

  void check_indexer(const Recording& run, int layer, const Rows& x, const Rows& q_a, StageErrors& errors) const {
    const std::string name = fmt::format("model.layers.{}.self_attn.indexer.", layer);
    const int heads = integer("index_n_heads"), dim = integer("index_head_dim");
    Rows k = default_project(x, name + "wk.weight");
    for (std::size_t t = 0; t < k.size(); ++t) {
      layer_norm(k[t], flat(name + "k_norm.weight"), flat(name + "k_norm.bias"));
      turn(k[t], 0, static_cast<int>(t), true);
      hadamard(k[t]);
    }
    errors.add("index_k", run.rows(layer, "index_k"), k);
    k = run.rows(layer, "index_k");
    for (Row& key : k) round_e4m3(key, 0, dim);
    for (int t = 0; t < run.tokens(); ++t) {
      const Row* shown = run.at(layer, "index_q", t);
      if (shown == nullptr) continue;  // all keys are selected in its step
      const auto row = static_cast<std::size_t>(t);
      const Row q = default_project({q_a[row]}, name + "wq_b.weight")[0];
      const Row weights = default_project({x[row]}, name + "weights_proj.weight")[0];
      Row queries, scores(row + 1);
      for (int h = 0; h < heads; ++h) {
        Row query = part(q, h * dim, dim);
        turn(query, 0, t, true);
        hadamard(query);
        round_e4m3(query, 0, dim);
        queries.insert(queries.end(), query.begin(), query.end());
        const double weight = weights[static_cast<std::size_t>(h)] / std::sqrt(double{1} * heads * dim);
        for (std::size_t s = 0; s <= row; ++s) {
          scores[s] += weight * std::max(0.0, dot(part(*shown, h * dim, dim), k[s]));
        }
      }
      errors.add("index_q", *shown, queries);
      errors.add("index_scores", part(*run.at(layer, "index_scores", t), 0, t + 1), scores);
    }
  }

  void check_feed_forward(const Recording& run, int layer, const Rows& x, StageErrors& errors) const {
    const std::string name = fmt::format("model.layers.{}.mlp.", layer);
    const bool sparse = layer >= integer("first_k_dense_replace");
    for (std::size_t t = 0; t < x.size(); ++t) {
      Row y = default_swiglu(x[t], sparse ? name + "shared_experts." : name);
      if (sparse) {
        const Row routed = check_experts(run, layer, static_cast<int>(t), x[t], route(name, x[t]), name, errors);
        for (std::size_t i = 0; i < y.size(); ++i) y[i] += routed[i];
      }
      errors.add("ffn_out", run.rows(layer, "ffn_out")[t], y);
    }
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

std::vector<double> mla_reference_drafts(const std::string& folder, std::span<const TokenId> ids, int known) {
  return Reference(folder, {}).drafts(ids, known);
}

StageErrors mla_default_stages(const std::string& folder, const Recording& run) {
  return Reference(folder, {}).stages(run);
}

}  // namespace sluice
