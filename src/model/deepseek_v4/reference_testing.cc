#include "model/deepseek_v4/reference_testing.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "model/checks/reference_model_testing.h"

namespace sluice {
namespace {

class Reference : ReferenceModel {
 public:
  explicit Reference(const std::string& folder) : ReferenceModel(folder) {
    hidden_ = integer("hidden_size");
    heads_ = integer("num_attention_heads");
    dim_ = integer("head_dim");
    rope_dims_ = integer("qk_rope_head_dim");
    eps_ = number("rms_norm_eps");
    trained_ = config_.contains("quantization_config");
    window_rope_ = make_rotation({{"rope_type", "default"}, {"rope_theta", config_.at("rope_theta")}}, rope_dims_);
    boost::json::object yarn = config_.at("rope_scaling").as_object();
    yarn["rope_type"] = yarn.at("type");
    yarn["rope_theta"] = config_.at("compress_rope_theta");
    yarn["attention_factor"] = 1;
    compress_rope_ = make_rotation(yarn, rope_dims_);
  }

  StageErrors stages(const Recording& run, const std::vector<int>& positions) const {
    StageErrors errors;
    for (int layer = 0; layer < integer("num_hidden_layers"); ++layer) {
      const std::string name = fmt::format("layers.{}.", layer);
      check_connections(run, layer, positions, errors);
      check_attention(run, layer, positions, errors);
      for (const int t : positions) check_feed_forward(run, layer, t, errors);
    }
    check_head(run, positions, errors);
    return errors;
  }

 private:
  int ratio(int layer) const {
    const auto& ratios = config_.at("compress_ratios").as_array();
    return static_cast<int>(ratios.at(static_cast<std::size_t>(layer)).as_int64());
  }
  const Rotation& rope(int layer) const { return ratio(layer) == 0 ? window_rope_ : compress_rope_; }
  void turn_head(const Rotation& rope, Row& x, int head, int dim, int position) const {
    turn(rope, x, head * dim + dim - rope_dims_, position, false);
  }
  static const Row& shown(const Recording& run, int layer, const std::string& name, int position) {
    const Row* row = run.at(layer, name, position);
    SLUICE_CHECK(row != nullptr, "the model shows what the reference wants");
    return *row;
  }
  // The streams before a layer, one after the other.
  Row streams_before(const Recording& run, int layer, int position) const {
    if (layer > 0) return shown(run, layer - 1, "resid_out", position);
    const Row& word = matrix("embed.weight")[static_cast<std::size_t>(run.ids()[static_cast<std::size_t>(position)])];
    Row streams;
    for (int j = 0; j < 4; ++j) streams.insert(streams.end(), word.begin(), word.end());
    return streams;
  }

  // Hyper-connections (docs/models/deepseek_v4.md §3), which round nothing: the coefficients of a site.
  struct Mix {
    Row pre, post, comb;
  };
  Mix mix(const std::string& site, const Row& streams) const {
    const double hc_eps = number("hc_eps");
    const Row base = flat(site + "_base"), scale = flat(site + "_scale");
    Row m = project({streams}, site + "_fn")[0];
    const double rho = 1 / std::sqrt(dot(streams, streams) / static_cast<double>(streams.size()) + eps_);
    const auto value = [&](std::size_t i, std::size_t part) { return m[i] * rho * scale[part] + base[i]; };
    const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
    Mix mix;
    for (std::size_t j = 0; j < 4; ++j) mix.pre.push_back(sigmoid(value(j, 0)) + hc_eps);
    if (m.size() == 4) return mix;  // the head's
    for (std::size_t j = 4; j < 8; ++j) mix.post.push_back(2 * sigmoid(value(j, 1)));
    for (std::size_t j = 0; j < 4; ++j) {
      double sum = 0;
      for (std::size_t k = 0; k < 4; ++k) sum += std::exp(value(8 + 4 * j + k, 2));
      for (std::size_t k = 0; k < 4; ++k) mix.comb.push_back(std::exp(value(8 + 4 * j + k, 2)) / sum + hc_eps);
    }
    const auto balance = [&](std::size_t line, std::size_t along) {  // rows: 4, 1; columns: 1, 4
      for (std::size_t i = 0; i < 4; ++i) {
        double sum = hc_eps;
        for (std::size_t k = 0; k < 4; ++k) sum += mix.comb[i * line + k * along];
        for (std::size_t k = 0; k < 4; ++k) mix.comb[i * line + k * along] /= sum;
      }
    };
    balance(1, 4);
    for (int i = 1; i < integer("hc_sinkhorn_iters"); ++i) balance(4, 1), balance(1, 4);
    return mix;
  }
  Row collapse(const Row& pre, const Row& streams) const {
    Row x(static_cast<std::size_t>(hidden_));
    for (std::size_t i = 0; i < streams.size(); ++i) x[i % x.size()] += pre[i / x.size()] * streams[i];
    return x;
  }

  void check_connections(const Recording& run, int layer, const std::vector<int>& positions,
                         StageErrors& errors) const {
    for (const int t : positions) {
      Row streams = streams_before(run, layer, t);
      for (const std::string& part : {std::string("attn"), std::string("ffn")}) {
        const Mix found = mix(fmt::format("layers.{}.hc_{}", layer, part), streams);
        const auto check = [&](const std::string& what, const Row& expected) {
          errors.add("hc_" + what, shown(run, layer, fmt::format("hc_{}_{}", part, what), t), expected);
        };
        check("x", collapse(found.pre, streams));
        check("post", found.post);
        check("comb", found.comb);
        const Row& y = shown(run, layer, part + "_out", t);
        Row sum(streams.size());
        for (std::size_t i = 0; i < sum.size(); ++i) {
          const std::size_t k = i / y.size(), d = i % y.size();
          sum[i] = found.post[k] * y[d];
          for (std::size_t j = 0; j < 4; ++j) sum[i] += found.comb[4 * j + k] * streams[j * y.size() + d];
        }
        streams = shown(run, layer, part == "attn" ? "resid_mid" : "resid_out", t);
        errors.add("resid", streams, sum);
      }
    }
  }

  Row normed(const Recording& run, int layer, const std::string& part, int position) const {
    return rms({shown(run, layer, "hc_" + part + "_x", position)}, fmt::format("layers.{}.{}_norm.weight", layer, part),
               eps_)[0];
  }

  // Rounds a KV row as it is stored. In checkpoints that were trained so: FP8 in blocks of 64, rotary dims in bf16. In
  // others: bf16.
  void store(Row& row) const {
    if (!trained_) return round_bf16(row);
    for (int i = 0; i < dim_ - rope_dims_; i += 64) round_e4m3(row, i, 64);
    round_bf16(row, dim_ - rope_dims_, rope_dims_);
  }

  // The pooled entry `e` of a compressor, normed and turned (docs/models/deepseek_v4.md §6); index keys are rotated if
  // they are FP4.
  Row entry(const Recording& run, int layer, const std::string& name, int e, int dim, bool of_index) const {
    const int tokens = ratio(layer);
    const bool overlap = tokens == 4;
    const auto width = static_cast<std::size_t>(dim);
    const Rows& ape = matrix(name + "ape");
    Rows values, gates;  // for every token, the channels that this entry reads
    const auto take = [&](int first, std::size_t channel) {
      for (int t = first; t < first + tokens; ++t) {
        const Row x = normed(run, layer, "attn", t);
        const Row kv = default_project({x}, name + "wkv.weight")[0],
                  gate = default_project({x}, name + "wgate.weight")[0];
        Row& value = values.emplace_back(kv.begin() + static_cast<std::ptrdiff_t>(channel),
                                         kv.begin() + static_cast<std::ptrdiff_t>(channel + width));
        Row& g = gates.emplace_back(value.size());
        for (std::size_t d = 0; d < width; ++d) {
          g[d] = gate[channel + d] + ape[static_cast<std::size_t>(t % tokens)][channel + d];
        }
      }
    };
    if (overlap && e > 0) take((e - 1) * tokens, 0);
    take(e * tokens, overlap ? width : 0);
    Row pooled(width);
    for (std::size_t d = 0; d < width; ++d) {
      double most = gates[0][d], z = 0;
      for (const Row& gate : gates) most = std::max(most, gate[d]);
      for (std::size_t i = 0; i < gates.size(); ++i) {
        const double w = std::exp(gates[i][d] - most);
        z += w;
        pooled[d] += w * values[i][d];
      }
      pooled[d] /= z;
    }
    pooled = rms({pooled}, name + "norm.weight", eps_)[0];
    turn_head(compress_rope_, pooled, 0, dim, e * tokens);
    if (of_index && trained_) hadamard(pooled);
    return pooled;
  }

  void check_attention(const Recording& run, int layer, const std::vector<int>& positions, StageErrors& errors) const {
    const std::string name = fmt::format("layers.{}.attn.", layer);
    const int tokens = ratio(layer), index_dim = integer("index_head_dim");
    for (const int t : positions) {
      if (tokens == 0 || ((t + 1) % tokens != 0 && tokens == 4) || t < tokens - 1) continue;
      const int e = (t + 1) / tokens - 1;
      const auto row = static_cast<std::size_t>(e);
      errors.add(tokens == 4 ? "csa" : "hca", run.rows(layer, "compressed")[row],
                 entry(run, layer, name + "compressor.", e, dim_, false));
      if (tokens != 4) continue;
      errors.add("index_k", run.rows(layer, "index_k")[row],
                 entry(run, layer, name + "indexer.compressor.", e, index_dim, true));
    }
    Rows window = run.rows(layer, "kv"), entries = tokens == 0 ? Rows() : run.rows(layer, "compressed");
    for (Row& row : window) store(row);
    for (Row& row : entries) store(row);
    Rows index_keys = tokens == 4 ? run.rows(layer, "index_k") : Rows();
    for (Row& key : index_keys) trained_ ? round_fp4(key) : round_bf16(key);

    for (const int t : positions) {
      const Row x = normed(run, layer, "attn", t);
      const Row &q_a = shown(run, layer, "qr", t), &q = shown(run, layer, "q", t), &o = shown(run, layer, "attn_o", t);
      errors.add("qr", q_a, rms(default_project({x}, name + "wq_a.weight"), name + "q_norm.weight", eps_)[0]);
      Row queries = default_project({q_a}, name + "wq_b.weight")[0];
      for (int h = 0; h < heads_; ++h) {
        const Row head = part(queries, h * dim_, dim_);
        const double r = 1 / std::sqrt(dot(head, head) / dim_ + eps_);
        for (int d = h * dim_; d < (h + 1) * dim_; ++d) queries[static_cast<std::size_t>(d)] *= r;
        turn_head(rope(layer), queries, h, dim_, t);
      }
      errors.add("q", q, queries);
      Row kv = rms(default_project({x}, name + "wkv.weight"), name + "kv_norm.weight", eps_)[0];
      turn_head(rope(layer), kv, 0, dim_, t);
      errors.add("kv", shown(run, layer, "kv", t), kv);
      if (tokens == 4) check_indexer(run, layer, t, x, index_keys, errors);

      std::vector<Split> splits = splits_of(entries_of(run, layer, t, entries));
      Split& recent = splits.emplace_back();
      for (int s = std::max(0, t - integer("sliding_window") + 1); s <= t; ++s) {
        recent.push_back(&window[static_cast<std::size_t>(s)]);
      }
      const Row sinks = flat(name + "attn_sink");
      Row values;
      for (int h = 0; h < heads_; ++h) {
        const Row found = default_attend(part(q, h * dim_, dim_), splits, 0, dim_, 1 / std::sqrt(double{1} * dim_),
                                         sinks[static_cast<std::size_t>(h)]);
        values.insert(values.end(), found.begin(), found.end());
        turn_head(rope(layer), values, h, dim_, -t);
      }
      errors.add("attn_o", o, values);
      errors.add("attn_out", shown(run, layer, "attn_out", t), project_out(name, o));
    }
  }

  Split entries_of(const Recording& run, int layer, int position, const Rows& entries) const {
    if (entries.empty() && ratio(layer) == 0) return {};
    const int visible = (position + 1) / ratio(layer);
    const int most = ratio(layer) == 4 ? integer("index_topk") : visible;
    Split chosen;
    if (visible <= most) {
      for (int e = 0; e < visible; ++e) chosen.push_back(&entries[static_cast<std::size_t>(e)]);
    } else {
      for (const int e : best(shown(run, layer, "index_scores", position), visible, most)) {
        chosen.push_back(&entries[static_cast<std::size_t>(e)]);
      }
    }
    return chosen;
  }

  // docs/models/deepseek_v4.md §7. Queries are rotated and FP4 where the keys are.
  void check_indexer(const Recording& run, int layer, int position, const Row& x, const Rows& keys,
                     StageErrors& errors) const {
    const Row* found = run.at(layer, "index_q", position);
    if (found == nullptr) return;  // all entries are selected in its step
    const std::string name = fmt::format("layers.{}.attn.indexer.", layer);
    const int heads = integer("index_n_heads"), dim = integer("index_head_dim");
    const Row q = default_project({shown(run, layer, "qr", position)}, name + "wq_b.weight")[0];
    const Row weights = default_project({x}, name + "weights_proj.weight")[0];
    Row queries, scores(static_cast<std::size_t>((position + 1) / 4));
    for (int h = 0; h < heads; ++h) {
      Row query = part(q, h * dim, dim);
      turn_head(compress_rope_, query, 0, dim, position);
      if (trained_) hadamard(query), round_fp4(query);
      queries.insert(queries.end(), query.begin(), query.end());
      const double weight = weights[static_cast<std::size_t>(h)] / std::sqrt(double{1} * heads * dim);
      for (std::size_t e = 0; e < scores.size(); ++e) {
        scores[e] += weight * std::max(0.0, dot(part(*found, h * dim, dim), keys[e]));
      }
    }
    errors.add("index_q", *found, queries);
    if (scores.empty()) return;
    errors.add("index_scores", part(shown(run, layer, "index_scores", position), 0, static_cast<int>(scores.size())),
               scores);
  }

  // Each group of heads through its rows of wo_a, then all through wo_b.
  Row project_out(const std::string& name, const Row& o) const {
    const Rows& weight = matrix(name + "wo_a.weight");
    const int groups = integer("o_groups"), inputs = heads_ * dim_ / groups;
    const std::size_t outputs = weight.size() / static_cast<std::size_t>(groups);
    Row u;
    for (int g = 0; g < groups; ++g) {
      const Row x = default_inputs(part(o, g * inputs, inputs), name + "wo_a.weight");
      for (std::size_t n = u.size(), end = n + outputs; n < end; ++n) u.push_back(dot(x, weight[n]));
    }
    return default_project({u}, name + "wo_b.weight")[0];
  }

  // docs/models/deepseek_v4.md §8.
  void check_feed_forward(const Recording& run, int layer, int position, StageErrors& errors) const {
    const std::string name = fmt::format("layers.{}.ffn.", layer);
    const Row x = normed(run, layer, "ffn", position);
    const Row& ids = shown(run, layer, "router_ids", position);
    Row score = project({x}, name + "gate.weight")[0];
    for (double& s : score) s = std::sqrt(std::log1p(std::exp(s)));
    Row chosen;
    if (const TensorView* given = checkpoint_.find(name + "gate.tid2eid")) {
      const auto word = static_cast<std::size_t>(run.ids()[static_cast<std::size_t>(position)]);
      for (std::size_t s = 0; s < ids.size(); ++s) {
        std::int64_t id;
        std::memcpy(&id, given->data + (word * ids.size() + s) * sizeof id, sizeof id);
        chosen.push_back(static_cast<double>(id));
      }
    } else {
      const Row bias = flat(name + "gate.bias");
      std::vector<std::pair<double, int>> order;
      for (std::size_t e = 0; e < score.size(); ++e) order.emplace_back(-score[e] - bias[e], static_cast<int>(e));
      std::sort(order.begin(), order.end());
      for (std::size_t s = 0; s < ids.size(); ++s) chosen.push_back(order[s].second);
    }
    double sum = 0;
    for (const double e : chosen) sum += score[static_cast<std::size_t>(e)];
    Row weights;
    for (const double e : chosen) {
      weights.push_back(score[static_cast<std::size_t>(e)] / sum * number("routed_scaling_factor"));
    }
    errors.add("router_ids", ids, chosen);
    const Row& given_weights = shown(run, layer, "router_weights", position);
    errors.add("router_weights", given_weights, weights);

    const double limit = number("swiglu_limit");
    const auto expert = [&](const std::string& of, double weight) {
      return default_swiglu(x, of + "w1.weight", of + "w3.weight", of + "w2.weight", weight, limit);
    };
    Row y = expert(name + "shared_experts.", 1);
    for (std::size_t s = 0; s < ids.size(); ++s) {
      const Row one = expert(fmt::format("{}experts.{}.", name, static_cast<int>(ids[s])), given_weights[s]);
      for (std::size_t i = 0; i < y.size(); ++i) y[i] += one[i];
    }
    errors.add("ffn_out", shown(run, layer, "ffn_out", position), y);
  }

  void check_head(const Recording& run, const std::vector<int>& positions, StageErrors& errors) const {
    for (const int t : positions) {
      const Row& streams = shown(run, integer("num_hidden_layers") - 1, "resid_out", t);
      const Rows x = rms({collapse(mix("hc_head", streams).pre, streams)}, "norm.weight", eps_);
      errors.add("logits", run.logits()[static_cast<std::size_t>(t)], default_project(x, "head.weight")[0]);
    }
  }

  int hidden_ = 0, heads_ = 0, dim_ = 0, rope_dims_ = 0;
  double eps_ = 0;
  bool trained_ = false;  // with FP8 KV rows and FP4 index rows
  Rotation window_rope_, compress_rope_;
};

}  // namespace

StageErrors v4_default_stages(const std::string& folder, const Recording& run, const std::vector<int>& positions) {
  return Reference(folder).stages(run, positions);
}

}  // namespace sluice
