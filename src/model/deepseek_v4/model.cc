#include "model/deepseek_v4/model.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/router.h"
#include "model/deepseek_v4/step.h"
#include "model/rope.h"

namespace sluice::v4 {
namespace {

RopeTable make_rope(const RopeConfig& rope, int rope_dims) {
  if (!rope.yarn) return RopeTable(rope_frequencies(rope.theta, rope_dims, nullptr));
  // V4 multiplies neither cos and sin nor the softmax scale by YaRN's attention factor.
  const YarnScaling yarn = yarn_scaling(rope);
  return RopeTable(rope_frequencies(rope.theta, rope_dims, &yarn));
}

}  // namespace

DeepSeekV4::DeepSeekV4(Checkpoint checkpoint, ModelConfig config, NumericsProfile profile)
    : checkpoint_(std::move(checkpoint)),
      config_(std::move(config)),
      profile_(std::move(profile)),
      layout_(make_cache_layout(config_, profile_, streams_)),
      window_rope_(make_rope(config_.rope, config_.v4().qk_rope_head_dim)),
      compress_rope_(make_rope(config_.compress_rope, config_.v4().qk_rope_head_dim)),
      workspace_(std::make_unique<Workspace>()) {}

DeepSeekV4::~DeepSeekV4() = default;

Result<std::unique_ptr<Model>> DeepSeekV4::load(const Exec& exec, Checkpoint checkpoint, ModelConfig config,
                                                NumericsProfile profile, const Loading& loading) {
  SLUICE_RETURN_IF_ERROR(check_supported(config, profile));
  std::unique_ptr<DeepSeekV4> model(new DeepSeekV4(std::move(checkpoint), std::move(config), std::move(profile)));
  const InputForm inputs = model->profile_.inputs;
  const WeightTable table = weight_table(model->config_, inputs, model->weights_);
  SLUICE_RETURN_IF_ERROR(load_weights(exec, model->checkpoint_, table, model->config_.quantization, loading));
  model->weights_.finish();
  return std::unique_ptr<Model>(std::move(model));
}

void DeepSeekV4::reserve(std::size_t rows) {
  Workspace& w = *workspace_;
  const DeepSeekV4Config& v4 = config_.v4();
  const auto add = [&](std::int64_t columns, ScratchTensor* tensor) {
    w.scratch.add(rows * static_cast<std::size_t>(columns), tensor);
  };
  const std::int64_t hidden = config_.hidden_size, dim = config_.head_dim, heads = config_.num_attention_heads;
  for (ScratchTensor* streams : {&w.streams, &w.wanted}) add(kHcStreams * hidden, streams);
  for (ScratchTensor* of_hidden : {&w.collapsed, &w.normed, &w.sub_layer}) add(hidden, of_hidden);
  add(24, &w.mixes);
  for (ScratchTensor* weights : {&w.pre, &w.post}) add(kHcStreams, weights);
  add(kHcStreams * kHcStreams, &w.comb);
  add(v4.q_lora_rank, &w.q_a);
  for (ScratchTensor* of_heads : {&w.q, &w.attended}) add(heads * dim, of_heads);
  for (ScratchTensor* of_head : {&w.kv, &w.pooled}) add(dim, of_head);
  add(std::int64_t{v4.o_groups} * v4.o_lora_rank, &w.o_a);
  for (ScratchTensor* compressed : {&w.comp_kv, &w.comp_gate}) add(2 * dim, compressed);  // 2: of CSA
  const std::int64_t index_dim = v4.index_head_dim, index_heads = v4.index_n_heads;
  for (ScratchTensor* compressed : {&w.index_kv, &w.index_gate}) add(2 * index_dim, compressed);
  add(index_dim, &w.index_pooled);
  add(index_heads * index_dim, &w.index_q);
  add(index_heads, &w.index_weights);
  add(v4.index_topk, &w.selected);
  add(1, &w.selected_count);
  add(config_.moe.n_routed_experts, &w.router_logits);
  for (ScratchTensor* routed : {&w.router_weights, &w.router_ids}) add(config_.moe.num_experts_per_tok, routed);
}

Status DeepSeekV4::prepare(Device& device, int rows, Position positions) {
  Workspace& w = *workspace_;
  if (w.device == &device && rows <= w.rows && positions <= window_rope_.reserved()) return {};
  w.device = &device;
  w.rows = std::max(rows, w.rows);
  reserve(static_cast<std::size_t>(w.rows));
  SLUICE_RETURN_IF_ERROR(w.scratch.take(device));
  const Position most = std::max(positions, window_rope_.reserved());
  SLUICE_RETURN_IF_ERROR(window_rope_.reserve(device, most));
  return compress_rope_.reserve(device, most);
}

void DeepSeekV4::forward(const Exec& exec, const StepTables& tables, const CacheView& cache, float* logits,
                         const Probe* probe) {
  Workspace& w = *workspace_;
  window_rope_.ensure(tables.end);
  compress_rope_.ensure(tables.end);

  Step step{{exec, tables, cache, probe}, w, tables.end / 4 > config_.v4().index_topk};
  embed(exec,
        {tables.ids, &weights_.embedding, kHcStreams, w.streams.get(step.floats(kHcStreams * config_.hidden_size))});
  for (int i = 0; i < config_.num_hidden_layers; ++i) layer(step, i);
  if (!tables.logit_rows.empty()) head(step, logits);
}

// The two sub-layers of a layer, each between the halves of a hyper-connection.
void DeepSeekV4::layer(Step& step, int index) {
  Workspace& w = step.w;
  const LayerWeights& weights = weights_.layers[static_cast<std::size_t>(index)];
  const int rows = step.rows(), hidden = config_.hidden_size;
  const auto eps = static_cast<float>(config_.rms_norm_eps);
  float* x = w.streams.get(step.floats(kHcStreams * hidden));
  float* pre = w.pre.get(step.floats(kHcStreams));
  float* post = w.post.get(step.floats(kHcStreams));
  float* comb = w.comb.get(step.floats(kHcStreams * kHcStreams));
  float* collapsed = w.collapsed.get(step.floats(hidden));
  float* normed = w.normed.get(step.floats(hidden));
  float* y = w.sub_layer.get(step.floats(hidden));

  const auto enter = [&](const HyperConnectionSite& site, const Param<float>& norm, const char* shown_x,
                         const char* shown_post, const char* shown_comb) {
    hc_mix(step.exec, {rows, hidden, x, &site.op, eps, static_cast<float>(config_.v4().hc_eps),
                       config_.v4().hc_sinkhorn_iters, w.mixes.get(step.floats(24)), pre, post, comb});
    hc_collapse(step.exec, {rows, hidden, x, pre, collapsed});
    step.show(index, shown_x, collapsed, rows, hidden);
    step.show(index, shown_post, post, rows, kHcStreams);
    step.show(index, shown_comb, comb, rows, kHcStreams * kHcStreams);
    rms_norm(step.exec, {rows, hidden, collapsed, hidden, norm.data(), eps, normed, hidden});
  };

  enter(weights.hc_attn, weights.attn_norm, "hc_attn_x", "hc_attn_post", "hc_attn_comb");
  attention(step, index, normed, y);
  step.show(index, "attn_out", y, rows, hidden);
  hc_expand(step.exec, {rows, hidden, y, post, comb, x});
  step.show(index, "resid_mid", x, rows, kHcStreams * hidden);

  enter(weights.hc_ffn, weights.ffn_norm, "hc_ffn_x", "hc_ffn_post", "hc_ffn_comb");
  feed_forward(step, index, normed, y);
  step.show(index, "ffn_out", y, rows, hidden);
  hc_expand(step.exec, {rows, hidden, y, post, comb, x});
  step.show(index, "resid_out", x, rows, kHcStreams * hidden);
}

// Router and experts (spec section 8).
void DeepSeekV4::feed_forward(Step& step, int index, const float* x, float* y) {
  Workspace& w = step.w;
  const FeedForwardWeights& ffn = weights_.layers[static_cast<std::size_t>(index)].ffn;
  const int rows = step.rows(), hidden = config_.hidden_size;
  const int experts_count = config_.moe.n_routed_experts, slots = config_.moe.num_experts_per_tok;
  const auto pairs = static_cast<std::size_t>(rows) * static_cast<std::size_t>(slots);

  float* router_logits = w.router_logits.get(step.floats(experts_count));
  const LinearJob gate{&ffn.gate, x, hidden, router_logits, experts_count};
  linear(step.exec, rows, {&gate, 1});

  float* router_weights = w.router_weights.get(pairs);
  RouteArgs router;
  router.rows = rows, router.experts = experts_count, router.slots = slots;
  router.logits = router_logits;
  router.bias = ffn.gate_bias.empty() ? nullptr : ffn.gate_bias.data();
  if (!ffn.tid2eid.empty()) router.hash_ids = ffn.tid2eid.data(), router.tokens = step.tables.ids.data();
  router.scaling = static_cast<float>(config_.moe.routed_scaling_factor);
  router.ids = w.router_ids.ints(pairs), router.weights = router_weights;
  route(step.exec, router);
  step.show(index, "router_weights", router_weights, rows, slots);
  step.show(index, "router_ids", router.ids, slots);

  experts(step.exec, {rows, hidden, slots, x, router.ids, router_weights, ffn.experts, &ffn.shared,
                      static_cast<float>(config_.moe.swiglu_limit.value_or(0.0)), y});
}

// Collapses the streams of the rows that want logits, and projects them onto the vocabulary (spec section 9).
void DeepSeekV4::head(Step& step, float* logits) {
  Workspace& w = step.w;
  const int rows = static_cast<int>(step.tables.logit_rows.size()), hidden = config_.hidden_size;
  const auto eps = static_cast<float>(config_.rms_norm_eps);
  float* x = w.wanted.get(static_cast<std::size_t>(rows) * static_cast<std::size_t>(kHcStreams * hidden));
  gather_rows(step.exec, {step.tables.logit_rows, kHcStreams * hidden, w.streams.get(0), x});
  float* pre = w.pre.get(step.floats(kHcStreams));
  float* h = w.collapsed.get(step.floats(hidden));
  float* normed = w.normed.get(step.floats(hidden));
  hc_mix(step.exec, {rows, hidden, x, &weights_.hc_head.op, eps, static_cast<float>(config_.v4().hc_eps), 0,
                     w.mixes.get(step.floats(24)), pre, nullptr, nullptr});
  hc_collapse(step.exec, {rows, hidden, x, pre, h});
  rms_norm(step.exec, {rows, hidden, h, hidden, weights_.norm.data(), eps, normed, hidden});
  const LinearJob job{&weights_.head, normed, hidden, logits, config_.vocab_size};
  linear(step.exec, rows, {&job, 1});
}

}  // namespace sluice::v4
