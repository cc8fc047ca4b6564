#include "model/deepseek_mla/model.h"

#include <algorithm>
#include <cmath>

#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/router.h"
#include "model/deepseek_mla/step.h"

namespace sluice::mla {
namespace {

RopeTable make_rope(const RopeConfig& rope, int rope_dims) {
  const YarnScaling yarn{rope.factor, rope.beta_fast, rope.beta_slow, rope.original_max_position_embeddings};
  return RopeTable(rope_frequencies(rope.theta, rope_dims, rope.yarn ? &yarn : nullptr), rope.attention_factor);
}

// (nope + rope)^-1/2, with YaRN times g(mscale_all_dim)^2 (spec sections 17.1, 18).
float softmax_scale(const ModelConfig& config) {
  const RopeConfig& rope = config.rope;
  const double m = rope.yarn && rope.mscale_all_dim != 0.0 ? yarn_mscale(rope.factor, rope.mscale_all_dim) : 1.0;
  return static_cast<float>(m * m / std::sqrt(static_cast<double>(config.mla().qk_head_dim())));
}

Position end_position(const Batch& batch) {
  Position end = 0;
  for (const auto& span : batch.spans) end = std::max(end, span.first_position + span.rows);
  return end;
}

}  // namespace

DeepSeekMla::DeepSeekMla(Checkpoint checkpoint, ModelConfig config, NumericsProfile profile)
    : checkpoint_(std::move(checkpoint)),
      config_(std::move(config)),
      profile_(std::move(profile)),
      layout_(make_cache_layout(config_, profile_, streams_)),
      rope_(make_rope(config_.rope, config_.mla().qk_rope_head_dim)),
      softmax_scale_(softmax_scale(config_)),
      workspace_(std::make_unique<Workspace>()) {}

DeepSeekMla::~DeepSeekMla() = default;

Result<std::unique_ptr<Model>> DeepSeekMla::load(const Exec& exec, Checkpoint checkpoint, ModelConfig config,
                                                 NumericsProfile profile, const LoadProgress& progress,
                                                 LoadReport* report) {
  std::unique_ptr<DeepSeekMla> model(new DeepSeekMla(std::move(checkpoint), std::move(config), std::move(profile)));
  const WeightTable table = weight_table(model->config_, model->profile_, model->weights_);
  SLUICE_RETURN_IF_ERROR(load_weights(exec, model->checkpoint_, table, model->config_.quantization, progress, report));
  return std::unique_ptr<Model>(std::move(model));
}

void DeepSeekMla::forward(const Exec& exec, const Batch& batch, const CacheView& cache, float* logits,
                          const Probe* probe) {
  const FlushDenormals flush;
  Workspace& w = *workspace_;
  w.cache_spans.clear();
  for (const auto& s : batch.spans) {
    w.cache_spans.push_back(
        {s.row_begin, s.rows, s.first_position, s.latent_pages, s.window_pages, s.first_window_block});
  }
  const Position end = end_position(batch);
  rope_.ensure(end);

  const DeepSeekMlaConfig& mla = config_.mla();
  Step step{exec, batch, cache, probe, w, w.cache_spans, mla.index_n_heads > 0 && end > mla.index_topk};
  embed(exec, batch.ids, weights_.embedding, 1, w.x.get(step.floats(config_.hidden_size)));
  for (int i = 0; i < config_.num_hidden_layers; ++i) layer(step, i);
  if (!batch.logit_rows.empty()) head(step, logits);
}

void DeepSeekMla::layer(Step& step, int index) {
  Workspace& w = step.w;
  const LayerWeights& weights = weights_.layers[static_cast<std::size_t>(index)];
  const int rows = step.rows(), hidden = config_.hidden_size;
  const auto eps = static_cast<float>(config_.rms_norm_eps);
  float* x = w.x.get(step.floats(hidden));
  float* normed = w.normed.get(step.floats(hidden));
  float* y = w.sub_layer.get(step.floats(hidden));

  rms_norm(step.exec, {rows, hidden, x, hidden, weights.attn_norm.data(), eps, normed, hidden});
  attention(step, index, normed, y);
  step.show(index, "attn_out", y, hidden);
  add(step.exec, rows, hidden, y, x);
  step.show(index, "resid_mid", x, hidden);

  rms_norm(step.exec, {rows, hidden, x, hidden, weights.ffn_norm.data(), eps, normed, hidden});
  feed_forward(step, index, normed, y);
  step.show(index, "ffn_out", y, hidden);
  add(step.exec, rows, hidden, y, x);
  step.show(index, "resid_out", x, hidden);
}

// Router and experts, or one dense SwiGLU (spec sections 17.2, 18).
void DeepSeekMla::feed_forward(Step& step, int index, const float* x, float* y) {
  Workspace& w = step.w;
  const FeedForwardWeights& ffn = weights_.layers[static_cast<std::size_t>(index)].ffn;
  const MoeConfig& moe = config_.moe;
  const int rows = step.rows(), hidden = config_.hidden_size;
  ExpertsArgs args;
  args.rows = rows, args.hidden = hidden, args.x = x, args.y = y;
  if (ffn.shared.gate.out() > 0) args.shared = &ffn.shared;
  if (!ffn.experts.empty()) {
    float* router_logits = w.router_logits.get(step.floats(moe.n_routed_experts));
    const LinearJob gate{&ffn.gate, x, hidden, router_logits, moe.n_routed_experts};
    linear(step.exec, rows, {&gate, 1});
    w.router_ids.resize(step.floats(moe.num_experts_per_tok));

    const bool sigmoid = !ffn.gate_bias.empty();
    RouteArgs router;
    router.rows = rows, router.experts = moe.n_routed_experts, router.slots = moe.num_experts_per_tok;
    router.logits = router_logits;
    router.bias = sigmoid ? ffn.gate_bias.data() : nullptr;
    router.scaling = static_cast<float>(moe.routed_scaling_factor);
    router.ids = w.router_ids.data();
    router.weights = w.router_weights.get(step.floats(router.slots));
    router.score = sigmoid ? RouterScore::kSigmoid : RouterScore::kSoftmax;
    router.normalised = moe.norm_topk_prob, router.sum_epsilon = 1e-20F;
    router.groups = moe.n_group, router.kept_groups = moe.topk_group;
    router.group_score = sigmoid ? GroupScore::kTwoLargest : GroupScore::kLargest;
    route(step.exec, router);
    step.show(index, "router_weights", router.weights, router.slots);
    args.slots = router.slots, args.expert_ids = router.ids, args.expert_weights = router.weights;
    args.experts = ffn.experts;
  }
  experts(step.exec, args, w.experts);
}

// Norms the rows that want logits, and projects them onto the vocabulary.
void DeepSeekMla::head(Step& step, float* logits) {
  Workspace& w = step.w;
  const int rows = static_cast<int>(step.batch.logit_rows.size()), hidden = config_.hidden_size;
  float* x = w.x.get(step.floats(hidden));
  for (std::size_t i = 0; i < step.batch.logit_rows.size(); ++i) {  // in place: rows ascend, so i <= logit_rows[i]
    const auto row = static_cast<std::ptrdiff_t>(step.batch.logit_rows[i]), to = static_cast<std::ptrdiff_t>(i);
    if (row != to) std::copy_n(x + row * hidden, hidden, x + to * hidden);
  }
  float* normed = w.normed.get(step.floats(hidden));
  const auto eps = static_cast<float>(config_.rms_norm_eps);
  rms_norm(step.exec, {rows, hidden, x, hidden, weights_.norm.data(), eps, normed, hidden});
  const LinearJob job{&weights_.head, normed, hidden, logits, config_.vocab_size};
  linear(step.exec, rows, {&job, 1});
}

}  // namespace sluice::mla
