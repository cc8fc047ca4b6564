// Used by model and model/decoder.
#include "model/decoder/model.h"

#include <utility>

#include "model/decoder/step.h"
#include "model/rope.h"

namespace sluice::decoder {

Decoder::Decoder(Checkpoint checkpoint, ModelConfig config, NumericsProfile profile, const RankGroup& group)
    : FamilyModel(std::move(checkpoint), std::move(config), std::move(profile), group),
      residual_(config_.hidden_size, config_.rms_norm_eps),
      workspace_(std::make_unique<Workspace>()) {
  if (shares_heads(config_, group)) {
    const int heads = config_.num_attention_heads / group.ranks;
    share_heads(heads, std::int64_t{heads} * config_.head_dim);
  }
  layout_ = make_cache_layout(config_, profile_, group, planes_);
  ropes_.push_back(make_rope_table(config_.rope, config_.head_dim));
}

Decoder::~Decoder() = default;

Result<std::unique_ptr<Model>> Decoder::load(const Exec& exec, Checkpoint checkpoint, ModelConfig config,
                                             NumericsProfile profile, const Loading& loading) {
  SLUICE_RETURN_IF_ERROR(check_feed_forward(exec, activation_of(config.moe), config.decoder().mlp_bias));
  std::unique_ptr<Decoder> model(new Decoder(std::move(checkpoint), std::move(config), std::move(profile), exec.group));
  WeightTable table = weight_table(model->config_, model->profile_, model->weights_);
  note_whole(loading, deal_weights(exec.group, shared_weights(model->config_, exec.group), table));
  SLUICE_RETURN_IF_ERROR(load_weights(exec, model->checkpoint_, table, model->config_, loading));
  return std::unique_ptr<Model>(std::move(model));
}

void Decoder::reserve(Scratch& scratch, std::size_t rows) {
  Workspace& w = *workspace_;
  const std::int64_t dim = config_.head_dim;
  const std::int64_t key_heads = own_key_heads(config_, group_);
  scratch.add(rows, heads_ * dim, &w.q);
  scratch.add(rows, config_.num_attention_heads * dim, &w.attended, InputForms::of_profile(profile_.inputs));
  for (ScratchTensor* of_keys : {&w.k, &w.v}) scratch.add(rows, key_heads * dim, of_keys);
  scratch.add(rows, key_heads * (value_offset(config_.head_dim) + dim), &w.kv);
  residual_.reserve(scratch, rows, profile_.inputs);
  w.feed_forward.reserve(scratch, config_.moe, rows);
}

void Decoder::forward(const Exec& exec, const StepTables& tables, const CacheView& cache, float* logits,
                      const Observer* observer) {
  begin(tables);
  Workspace& w = *workspace_;
  Step step{{exec, tables, cache, observer}, w};
  step.exports = exports_, step.own = own();
  residual_.embed(step, weights_.embedding);
  for (int i = 0; i < config_.num_hidden_layers; ++i) {
    const LayerWeights& layer = weights_.layers[static_cast<std::size_t>(i)];
    residual_.add(step, i, layer.attn_norm, inputs_of(layer.attn), "attn_out", "resid_mid",
                  [&](const Rows& x, const Rows& y) { attention(step, i, x, y); });
    residual_.add(step, i, layer.ffn_norm, inputs_of(layer.ffn), "ffn_out", "resid_out",
                  [&](const Rows& x, const Rows& y) {
                    feed_forward(step, i, config_, layer.ffn, routing(config_.moe, layer.ffn), x, y, w.feed_forward);
                  });
  }
  residual_.logits(step, weights_.norm, weights_.head, logits);
}

}  // namespace sluice::decoder
