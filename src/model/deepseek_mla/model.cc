#include "model/deepseek_mla/model.h"

#include <algorithm>
#include <cmath>

#include "model/deepseek_mla/step.h"
#include "model/rope.h"

namespace sluice::mla {
namespace {

// (nope + rope)^-1/2, with YaRN times g(mscale_all_dim)^2 (spec sections 17.1, 18).
float softmax_scale(const ModelConfig& config) {
  const RopeConfig& rope = config.rope;
  const double m = rope.yarn && rope.mscale_all_dim != 0.0 ? yarn_mscale(rope.factor, rope.mscale_all_dim) : 1.0;
  return static_cast<float>(m * m / std::sqrt(static_cast<double>(config.mla().qk_head_dim())));
}

}  // namespace

DeepSeekMla::DeepSeekMla(Checkpoint checkpoint, ModelConfig config, NumericsProfile profile)
    : checkpoint_(std::move(checkpoint)),
      config_(std::move(config)),
      profile_(std::move(profile)),
      layout_(make_cache_layout(config_, profile_, streams_)),
      rope_(make_rope_table(config_.rope, config_.mla().qk_rope_head_dim)),
      residual_(config_.hidden_size, config_.rms_norm_eps),
      softmax_scale_(softmax_scale(config_)),
      workspace_(std::make_unique<Workspace>()) {}

DeepSeekMla::~DeepSeekMla() = default;

Result<std::unique_ptr<Model>> DeepSeekMla::load(const Exec& exec, Checkpoint checkpoint, ModelConfig config,
                                                 NumericsProfile profile, const Loading& loading) {
  std::unique_ptr<DeepSeekMla> model(new DeepSeekMla(std::move(checkpoint), std::move(config), std::move(profile)));
  const WeightTable table = weight_table(model->config_, model->profile_, model->weights_);
  SLUICE_RETURN_IF_ERROR(load_weights(exec, model->checkpoint_, table, model->config_.quantization, loading));
  return std::unique_ptr<Model>(std::move(model));
}

void DeepSeekMla::reserve(std::size_t rows) {
  Workspace& w = *workspace_;
  const DeepSeekMlaConfig& mla = config_.mla();
  const auto add = [&](std::int64_t columns, ScratchTensor* tensor) {
    w.scratch.add(rows * static_cast<std::size_t>(columns), tensor);
  };
  const std::int64_t heads = config_.num_attention_heads;
  add(mla.q_lora_rank, &w.q_a);
  add(heads * mla.qk_head_dim(), &w.q);
  add(mla.latent_dim(), &w.latent);
  add(heads * mla.latent_dim(), &w.absorbed);
  add(heads * mla.kv_lora_rank, &w.attended);
  add(heads * mla.v_head_dim, &w.values);
  add(mla.index_head_dim, &w.index_k);
  add(std::int64_t{mla.index_n_heads} * mla.index_head_dim, &w.index_q);
  add(mla.index_n_heads, &w.index_weights);
  add(mla.index_n_heads > 0 ? mla.index_topk : 0, &w.selected);
  add(1, &w.selected_count);
  if (profile_.expand_from > 0) reserve_expanded(rows);
  residual_.reserve(w.scratch, rows);
  w.feed_forward.reserve(w.scratch, config_.moe, rows);
}

Status DeepSeekMla::prepare(Device& device, int rows, Position positions) {
  Workspace& w = *workspace_;
  if (w.device == &device && rows <= w.rows && positions <= rope_.reserved()) return {};
  w.device = &device;
  w.rows = std::max(rows, w.rows);
  reserve(static_cast<std::size_t>(w.rows));
  SLUICE_RETURN_IF_ERROR(w.scratch.take(device));
  return rope_.reserve(device, std::max(positions, rope_.reserved()));
}

void DeepSeekMla::forward(const Exec& exec, const StepTables& tables, const CacheView& cache, float* logits,
                          const Probe* probe) {
  Workspace& w = *workspace_;
  rope_.ensure(tables.end);

  const DeepSeekMlaConfig& mla = config_.mla();
  const bool selects = mla.index_n_heads > 0 && tables.end > mla.index_topk;
  Step step{{exec, tables, cache, probe}, w, selects};
  residual_.embed(step, weights_.embedding);
  for (int i = 0; i < config_.num_hidden_layers; ++i) {
    const LayerWeights& layer = weights_.layers[static_cast<std::size_t>(i)];
    residual_.add(step, i, layer.attn_norm, "attn_out", "resid_mid",
                  [&](const float* x, float* y) { attention(step, i, x, y); });
    residual_.add(step, i, layer.ffn_norm, "ffn_out", "resid_out",
                  [&](const float* x, float* y) { feed_forward(step, i, config_, layer.ffn, x, y, w.feed_forward); });
  }
  residual_.logits(step, weights_.norm, weights_.head, logits);
}

}  // namespace sluice::mla
