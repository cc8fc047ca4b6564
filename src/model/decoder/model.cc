#include "model/decoder/model.h"

#include <algorithm>

#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/router.h"
#include "model/decoder/step.h"

namespace sluice::decoder {
namespace {

RopeTable make_rope(const RopeConfig& rope, int head_dim) {
  const YarnScaling yarn{rope.factor, rope.beta_fast, rope.beta_slow, rope.original_max_position_embeddings};
  std::vector<float> frequencies = rope_frequencies(rope.theta, head_dim, rope.yarn ? &yarn : nullptr);
  if (rope.llama3) {
    scale_as_llama3({rope.factor, rope.low_freq_factor, rope.high_freq_factor, rope.original_max_position_embeddings},
                    &frequencies);
  }
  for (std::size_t i = 0; i < rope.frequency_divisors.size(); ++i) frequencies[i] /= rope.frequency_divisors[i];
  return RopeTable(std::move(frequencies), rope.attention_factor);
}

Position end_position(const Batch& batch) {
  Position end = 0;
  for (const auto& span : batch.spans) end = std::max(end, span.first_position + span.rows);
  return end;
}

}  // namespace

Decoder::Decoder(Checkpoint checkpoint, ModelConfig config, NumericsProfile profile)
    : checkpoint_(std::move(checkpoint)),
      config_(std::move(config)),
      profile_(std::move(profile)),
      layout_(make_cache_layout(config_, profile_, streams_)),
      rope_(make_rope(config_.rope, config_.head_dim)),
      workspace_(std::make_unique<Workspace>()) {}

Decoder::~Decoder() = default;

Result<std::unique_ptr<Model>> Decoder::load(const Exec& exec, Checkpoint checkpoint, ModelConfig config,
                                             NumericsProfile profile, const LoadProgress& progress,
                                             LoadReport* report) {
  std::unique_ptr<Decoder> model(new Decoder(std::move(checkpoint), std::move(config), std::move(profile)));
  const bool bf16_inputs = model->profile_.compute == ComputeDtype::kBf16;
  const WeightTable table = weight_table(model->config_, bf16_inputs, model->weights_);
  SLUICE_RETURN_IF_ERROR(load_weights(exec, model->checkpoint_, table, model->config_.quantization, progress, report));
  return std::unique_ptr<Model>(std::move(model));
}

void Decoder::forward(const Exec& exec, const Batch& batch, const CacheView& cache, float* logits, const Probe* probe) {
  const FlushDenormals flush;
  Workspace& w = *workspace_;
  w.cache_spans.clear();
  for (const auto& s : batch.spans) {
    w.cache_spans.push_back(
        {s.row_begin, s.rows, s.first_position, s.latent_pages, s.window_pages, s.first_window_block});
  }
  rope_.ensure(end_position(batch));

  Step step{exec, batch, cache, probe, w, w.cache_spans};
  embed(exec, batch.ids, weights_.embedding, 1, w.x.get(step.floats(config_.hidden_size)));
  for (int i = 0; i < config_.num_hidden_layers; ++i) layer(step, i);
  if (!batch.logit_rows.empty()) head(step, logits);
}

void Decoder::layer(Step& step, int index) {
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

// One dense SwiGLU, or softmax routing over experts.
void Decoder::feed_forward(Step& step, int index, const float* x, float* y) {
  Workspace& w = step.w;
  const FeedForwardWeights& ffn = weights_.layers[static_cast<std::size_t>(index)].ffn;
  const MoeConfig& moe = config_.moe;
  const int rows = step.rows(), hidden = config_.hidden_size;
  ExpertsArgs args;
  args.rows = rows, args.hidden = hidden, args.x = x, args.y = y;
  if (ffn.experts.empty()) {
    args.shared = &ffn.dense;
  } else {
    float* logits = w.router_logits.get(step.floats(moe.n_routed_experts));
    const LinearJob router{&ffn.router, x, hidden, logits, moe.n_routed_experts};
    linear(step.exec, rows, {&router, 1});
    w.router_ids.resize(step.floats(moe.num_experts_per_tok));
    RouteArgs choose;
    choose.rows = rows, choose.experts = moe.n_routed_experts, choose.slots = moe.num_experts_per_tok;
    choose.logits = logits;
    choose.ids = w.router_ids.data();
    choose.weights = w.router_weights.get(step.floats(choose.slots));
    choose.score = RouterScore::kSoftmax, choose.normalised = moe.norm_topk_prob;
    route(step.exec, choose);
    step.show(index, "router_weights", choose.weights, choose.slots);
    args.slots = choose.slots, args.expert_ids = choose.ids, args.expert_weights = choose.weights;
    args.experts = ffn.experts;
  }
  experts(step.exec, args, w.experts);
}

// Norms the rows that want logits, and projects them onto the vocabulary.
void Decoder::head(Step& step, float* logits) {
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

}  // namespace sluice::decoder
