// Used by cache_layout.cc, model/families.cc, plan.cc and step.h.
#include "model/deepseek_v4/model.h"

#include <utility>

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

DeepSeekV4::DeepSeekV4(Checkpoint checkpoint, ModelConfig config, NumericsProfile profile, bool mtp,
                       const RankGroup& group)
    : FamilyModel(std::move(checkpoint), std::move(config), std::move(profile), group),
      mtp_(mtp),
      workspace_(std::make_unique<Workspace>()) {
  const DeepSeekV4Config& v4 = config_.v4();
  if (deals(group, v4.o_groups)) {
    share_heads(config_.num_attention_heads / group.ranks, std::int64_t{v4.o_groups} / group.ranks * v4.o_lora_rank);
  }
  layout_ = make_cache_layout(config_, profile_, mtp_, planes_);
  for (const RopeConfig* rope : {&config_.rope, &config_.compress_rope}) {
    ropes_.push_back(make_rope(*rope, config_.v4().qk_rope_head_dim));
  }
}

DeepSeekV4::~DeepSeekV4() = default;

Result<std::unique_ptr<Model>> DeepSeekV4::load(const Exec& exec, Checkpoint checkpoint, ModelConfig config,
                                                NumericsProfile profile, const Loading& loading) {
  SLUICE_RETURN_IF_ERROR(check_supported(config, profile));
  std::unique_ptr<DeepSeekV4> model(
      new DeepSeekV4(std::move(checkpoint), std::move(config), std::move(profile), loading.mtp, exec.group));
  WeightTable table = weight_table(model->config_, model->profile_, model->weights_, exec.group);
  note_whole(loading, deal_weights(exec.group, shared_weights(model->config_, exec.group), table));
  SLUICE_RETURN_IF_ERROR(load_weights(exec, model->checkpoint_, table, model->config_, loading));
  model->weights_.finish();
  return std::unique_ptr<Model>(std::move(model));
}

void DeepSeekV4::reserve(Scratch& scratch, std::size_t rows) {
  Workspace& w = *workspace_;
  const DeepSeekV4Config& v4 = config_.v4();
  const std::int64_t hidden = config_.hidden_size, dim = config_.head_dim, heads = heads_;
  const std::int64_t index_dim = v4.index_head_dim, index_heads = v4.index_n_heads;
  for (ScratchTensor* streams : {&w.streams, &w.wanted}) scratch.add(rows, kHcStreams * hidden, streams);
  InputForms forms = InputForms::of_profile(profile_.inputs);
  if (profile_.experts == InputForm::kInt8) forms.add(InputForm::kInt8);
  if (mtp_) scratch.add(kHcStreams * rows, hidden, &w.mtp_inputs, forms);
  for (ScratchTensor* of_hidden : {&w.collapsed, &w.sub_layer}) scratch.add(rows, hidden, of_hidden);
  scratch.add(rows, hidden, &w.normed, forms);
  scratch.add(rows, 24, &w.mixes);
  for (ScratchTensor* weights : {&w.pre, &w.post}) scratch.add(rows, kHcStreams, weights);
  scratch.add(rows, kHcStreams * kHcStreams, &w.comb);
  scratch.add(rows, v4.q_lora_rank, &w.q_a, forms);
  scratch.add(rows, heads * dim, &w.q);
  scratch.add(rows, heads * dim, &w.attended, forms);
  scratch.add(rows, dim, &w.kv);
  scratch.add(rows, std::int64_t{v4.o_groups} * v4.o_lora_rank, &w.o_a, forms);
  const auto add_compressor = [&](std::int64_t dims, CompressorScratch* compressor) {
    for (ScratchTensor* projected : {&compressor->kv, &compressor->gate}) scratch.add(rows, 2 * dims, projected);
    scratch.add(rows, dims, &compressor->pooled);
  };
  add_compressor(dim, &w.compressor);
  add_compressor(index_dim, &w.index_compressor);
  scratch.add(rows, index_heads * index_dim, &w.index_q);
  scratch.add(rows, index_heads, &w.index_weights);
  scratch.add(rows, v4.index_topk, &w.selected);
  scratch.add(rows, 1, &w.selected_count);
  w.feed_forward.reserve(scratch, config_.moe, rows);
}

// Each of the two sub-layers of a layer is between the halves of a hyper-connection.
void DeepSeekV4::forward(const Exec& exec, const StepTables& tables, const CacheView& cache, float* logits,
                         const Observer* observer) {
  begin(tables);
  Workspace& w = *workspace_;
  Step step{{exec, tables, cache, observer, config_.num_hidden_layers}, w, tables.end / 4 > config_.v4().index_topk};
  step.exports = exports_, step.own = own();
  embed(exec, {tables.ids, &weights_.embedding, kHcStreams, w.streams.floats(step.rows())});
  for (int i = 0; i < config_.num_hidden_layers; ++i) block(step, i);
  head(step, config_.num_hidden_layers - 1, weights_.hc_head, weights_.norm, weights_.head, logits);
  if (mtp_) write_mtp_keys(step);
}

void DeepSeekV4::block(Step& step, int index) {
  Workspace& w = step.w;
  const LayerWeights& weights = layer(index);
  const Rows y = w.sub_layer.rows(step.rows());
  attention(step, index, y);
  step.show(index, "attn_out", y);
  const Rows x = enter(step, index, weights.hc_ffn, weights.ffn_norm, inputs_of(weights.ffn));
  feed_forward(step, index, config_, weights.ffn, {}, x, y, w.feed_forward);
  step.show(index, "ffn_out", y);
}

const LayerWeights& DeepSeekV4::layer(int index) const {
  return index == mtp_index() ? weights_.mtp.front().block : weights_.layers[static_cast<std::size_t>(index)];
}

int DeepSeekV4::compress_ratio(int index) const {
  return index == mtp_index() ? 0 : config_.v4().layers[static_cast<std::size_t>(index)].compress_ratio;
}

// Slot s of the layer for multi-token prediction belongs to position s - 1.
Rotation DeepSeekV4::rope(int index) const {
  const int dims = config_.v4().qk_rope_head_dim, offset = config_.head_dim - dims;
  if (index == mtp_index()) return {window_rope().delayed(), dims, offset};
  return {(compress_ratio(index) == 0 ? window_rope() : compress_rope()).data(), dims, offset};
}

HcLeaveEnterArgs DeepSeekV4::leave(Step& step, bool first, const InputForms& inputs) const {
  Workspace& w = step.w;
  const int rows = step.rows();
  HcLeaveEnterArgs args;
  args.rows = rows, args.dim = config_.hidden_size;
  args.x = w.streams.floats(rows);
  if (!first) args.y = w.sub_layer.floats(rows);
  args.norm_eps = static_cast<float>(config_.rms_norm_eps), args.hc_eps = static_cast<float>(config_.v4().hc_eps);
  args.mixes = w.mixes.floats(rows), args.pre = w.pre.floats(rows), args.post = w.post.floats(rows);
  args.comb = w.comb.floats(rows), args.collapsed = w.collapsed.floats(rows), args.normed = w.normed.rows(rows, inputs);
  return args;
}

Rows DeepSeekV4::enter(Step& step, int index, const HyperConnectionSite& site, const Param<float>& norm,
                       const InputForms& inputs) {
  const bool attention = &site == &layer(index).hc_attn;
  const bool first = attention && (index == 0 || index == mtp_index());
  HcLeaveEnterArgs args = leave(step, first, inputs);
  args.weights = &site.op, args.sinkhorn_iterations = config_.v4().hc_sinkhorn_iters;
  args.norm = norm.data();
  hc_leave_enter(step.exec, args);
  const Workspace& w = step.w;
  if (!first)
    step.show(attention ? index - 1 : index, attention ? "resid_out" : "resid_mid", w.streams.rows(args.rows));
  step.show(index, attention ? "hc_attn_x" : "hc_ffn_x", w.collapsed.rows(args.rows));
  step.show(index, attention ? "hc_attn_post" : "hc_ffn_post", w.post.rows(args.rows));
  step.show(index, attention ? "hc_attn_comb" : "hc_ffn_comb", w.comb.rows(args.rows));
  return args.normed;
}

// Collapses the streams of the rows that want logits, and projects them onto the vocabulary
// (docs/models/deepseek_v4.md §9).
void DeepSeekV4::head(Step& step, int index, const HyperConnectionSite& site, const Param<float>& norm,
                      const LinearWeight& weight, float* logits) {
  HcLeaveEnterArgs args = leave(step, false, InputForms().add(weight));
  const std::span<const std::int32_t> wanted = step.tables.logit_rows;
  const int rows = static_cast<int>(wanted.size());
  if (rows > 0) {
    args.weights = &site.op, args.norm = norm.data();
    args.only = wanted, args.gathered = step.w.wanted.floats(rows);
  }
  hc_leave_enter(step.exec, args);
  step.show(index, "resid_out", step.w.streams.rows(step.rows()));
  if (rows > 0) step.project_logits(rows, args.normed, weight, logits);
}

}  // namespace sluice::v4
