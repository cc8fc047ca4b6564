#include "model/decoder/model.h"

#include <algorithm>

#include "model/decoder/step.h"
#include "model/rope.h"

namespace sluice::decoder {

Decoder::Decoder(Checkpoint checkpoint, ModelConfig config, NumericsProfile profile)
    : checkpoint_(std::move(checkpoint)),
      config_(std::move(config)),
      profile_(std::move(profile)),
      layout_(make_cache_layout(config_, profile_, streams_)),
      rope_(make_rope_table(config_.rope, config_.head_dim)),
      residual_(config_.hidden_size, config_.rms_norm_eps),
      workspace_(std::make_unique<Workspace>()) {}

Decoder::~Decoder() = default;

Result<std::unique_ptr<Model>> Decoder::load(const Exec& exec, Checkpoint checkpoint, ModelConfig config,
                                             NumericsProfile profile, const Loading& loading) {
  std::unique_ptr<Decoder> model(new Decoder(std::move(checkpoint), std::move(config), std::move(profile)));
  const InputForm inputs = model->profile_.inputs;
  const WeightTable table = weight_table(model->config_, inputs, model->weights_);
  SLUICE_RETURN_IF_ERROR(load_weights(exec, model->checkpoint_, table, model->config_.quantization, loading));
  return std::unique_ptr<Model>(std::move(model));
}

void Decoder::reserve(std::size_t rows) {
  Workspace& w = *workspace_;
  const auto add = [&](std::int64_t columns, ScratchTensor* tensor) {
    w.scratch.add(rows * static_cast<std::size_t>(columns), tensor);
  };
  const int dim = config_.head_dim, heads = config_.num_attention_heads, key_heads = config_.num_key_value_heads;
  add(std::int64_t{heads} * dim, &w.q);
  add(std::int64_t{key_heads} * dim, &w.k);
  add(std::int64_t{key_heads} * dim, &w.v);
  add(std::int64_t{heads} * dim, &w.attended);
  add(std::int64_t{key_heads} * (value_offset(dim) + dim), &w.kv);
  residual_.reserve(w.scratch, rows);
  w.feed_forward.reserve(w.scratch, config_.moe, rows);
}

Status Decoder::prepare(Device& device, int rows, Position positions) {
  Workspace& w = *workspace_;
  if (w.device == &device && rows <= w.rows && positions <= rope_.reserved()) return {};
  w.device = &device;
  w.rows = std::max(rows, w.rows);
  reserve(static_cast<std::size_t>(w.rows));
  SLUICE_RETURN_IF_ERROR(w.scratch.take(device));
  return rope_.reserve(device, std::max(positions, rope_.reserved()));
}

void Decoder::forward(const Exec& exec, const StepTables& tables, const CacheView& cache, float* logits,
                      const Probe* probe) {
  Workspace& w = *workspace_;
  rope_.ensure(tables.end);

  Step step{{exec, tables, cache, probe}, w};
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

}  // namespace sluice::decoder
