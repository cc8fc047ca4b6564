// Used by cache_layout.cc, model/families.cc, plan.cc and step.h.
#include "model/deepseek_mla/model.h"

#include <algorithm>
#include <cmath>

#include "model/deepseek_mla/step.h"
#include "model/rope.h"

namespace sluice::mla {
namespace {

// Returns (nope + rope)^-1/2. With mscale_all_dim of scaled rotary embeddings it is multiplied by g^2
// (docs/models/deepseek_v3.md §1).
float softmax_scale(const ModelConfig& config) {
  const RopeConfig& rope = config.rope;
  const double m = rope.mscale_all_dim != 0.0 ? yarn_mscale(rope.factor, rope.mscale_all_dim) : 1.0;
  return static_cast<float>(m * m / std::sqrt(static_cast<double>(config.mla().qk_head_dim())));
}

}  // namespace

DeepSeekMla::DeepSeekMla(Checkpoint checkpoint, ModelConfig config, NumericsProfile profile, bool mtp,
                         const RankGroup& group)
    : FamilyModel(std::move(checkpoint), std::move(config), std::move(profile), group),
      mtp_(mtp),
      residual_(config_.hidden_size, config_.rms_norm_eps),
      softmax_scale_(softmax_scale(config_)),
      workspace_(std::make_unique<Workspace>()) {
  if (deals(group, config_.num_attention_heads)) {
    const int heads = config_.num_attention_heads / group.ranks;
    share_heads(heads, std::int64_t{heads} * config_.mla().v_head_dim);
  }
  layout_ = make_cache_layout(config_, profile_, mtp_, planes_);
  ropes_.push_back(make_rope_table(config_.rope, config_.mla().qk_rope_head_dim));
}

DeepSeekMla::~DeepSeekMla() = default;

Result<std::unique_ptr<Model>> DeepSeekMla::load(const Exec& exec, Checkpoint checkpoint, ModelConfig config,
                                                 NumericsProfile profile, const Loading& loading) {
  SLUICE_RETURN_IF_ERROR(check_feed_forward(exec, activation_of(config.moe), config.mla().mlp_bias));
  std::unique_ptr<DeepSeekMla> model(
      new DeepSeekMla(std::move(checkpoint), std::move(config), std::move(profile), loading.mtp, exec.group));
  WeightTable table = weight_table(model->config_, model->profile_, model->weights_, exec.group);
  note_whole(loading, deal_weights(exec.group, shared_weights(model->config_, exec.group), table));
  SLUICE_RETURN_IF_ERROR(load_weights(exec, model->checkpoint_, table, model->config_, loading));
  return std::unique_ptr<Model>(std::move(model));
}

void DeepSeekMla::reserve(Scratch& scratch, std::size_t rows) {
  Workspace& w = *workspace_;
  const DeepSeekMlaConfig& mla = config_.mla();
  const std::int64_t heads = heads_, index_heads = mla.index_n_heads;
  scratch.add(rows, mla.q_lora_rank, &w.q_a, InputForms::of_profile(profile_.inputs));
  scratch.add(rows, heads * mla.qk_head_dim(), &w.q);
  scratch.add(rows, mla.latent_dim(), &w.latent);
  scratch.add(rows, heads * mla.latent_dim(), &w.absorbed);
  scratch.add(rows, heads * mla.kv_lora_rank, &w.attended);
  scratch.add(rows, std::int64_t{config_.num_attention_heads} * mla.v_head_dim, &w.values);
  scratch.add(rows, mla.index_head_dim, &w.index_k);
  scratch.add(rows, index_heads * mla.index_head_dim, &w.index_q);
  scratch.add(rows, index_heads, &w.index_weights);
  scratch.add(rows, index_heads > 0 ? mla.index_topk : 0, &w.selected);
  scratch.add(rows, 1, &w.selected_count);
  residual_.reserve(scratch, rows, profile_.inputs);
  const std::int64_t hidden = mtp_ ? config_.hidden_size : 0;
  for (ScratchTensor* of_hidden : {&w.hidden, &w.token}) scratch.add(rows, hidden, of_hidden);
  scratch.add(rows, 2 * hidden, &w.token_and_hidden);
  w.feed_forward.reserve(scratch, config_.moe, rows);
  if (profile_.expand_from == 0) return;
  const auto keys = std::max(static_cast<std::int64_t>(rows), std::int64_t{profile_.prefix_chunk});
  scratch.add(1, keys * mla.latent_dim(), &w.piece_latents);
  scratch.add(1, ExpandAndAttendArgs::expanded_floats(heads, keys, mla.qk_head_dim(), mla.v_head_dim), &w.expanded);
  scratch.add(rows, heads * mla.v_head_dim, &w.piece);
  for (ScratchTensor* lse : {&w.piece_lse, &w.lse}) scratch.add(rows, heads, lse);
}

void DeepSeekMla::forward(const Exec& exec, const StepTables& tables, const CacheView& cache, float* logits,
                          const Observer* observer) {
  begin(tables);
  Workspace& w = *workspace_;
  const DeepSeekMlaConfig& mla = config_.mla();
  Step step{{exec, tables, cache, observer, config_.num_hidden_layers},
            w,
            mla.index_n_heads > 0 && tables.end > mla.index_topk};
  step.exports = exports_, step.own = own();
  residual_.embed(step, weights_.embedding);
  for (int i = 0; i < config_.num_hidden_layers; ++i) block(step, i);
  residual_.logits(step, weights_.norm, weights_.head, logits);
  if (mtp_) write_mtp_keys(step);
}

void DeepSeekMla::block(Step& step, int index) {
  const LayerWeights& weights = layer(index);
  residual_.add(step, index, weights.attn_norm, inputs_of(weights.attn), "attn_out", "resid_mid",
                [&](const Rows& x, const Rows& y) { attention(step, index, x, y); });
  residual_.add(
      step, index, weights.ffn_norm, inputs_of(weights.ffn), "ffn_out", "resid_out", [&](const Rows& x, const Rows& y) {
        feed_forward(step, index, config_, weights.ffn, routing(config_.moe, weights.ffn), x, y, step.w.feed_forward);
      });
}

const LayerWeights& DeepSeekMla::layer(int index) const {
  return index == mtp_index() ? weights_.mtp.front().block : weights_.layers[static_cast<std::size_t>(index)];
}

}  // namespace sluice::mla
