// Attention of one layer (spec section 17.1): project, write the cache, then attend through it, absorbed, or in long
// spans of a profile that asks for it expanded (expanded_attention.cc).
#include "kernels/attention.h"

#include "kernels/elementwise.h"
#include "kernels/stream.h"
#include "model/deepseek_mla/step.h"

namespace sluice::mla {
namespace {

constexpr float kLatentNormEps = 1e-6F;  // of the norms of q_a and kv_a, whatever rms_norm_eps says

}  // namespace

void DeepSeekMla::attention(Step& step, int index, const float* x, float* y) {
  Workspace& w = step.w;
  const AttentionWeights& a = weights_.layers[static_cast<std::size_t>(index)].attn;
  const LayerStreams& streams = streams_[static_cast<std::size_t>(index)];
  const DeepSeekMlaConfig& mla = config_.mla();
  const int rows = step.rows(), hidden = config_.hidden_size, heads = config_.num_attention_heads;
  const int rope_dims = mla.qk_rope_head_dim, latent_dim = mla.latent_dim();

  float* q = w.q.get(step.floats(heads * mla.qk_head_dim()));
  float* latent = w.latent.get(step.floats(latent_dim));
  project(step, index, x, q, latent);
  simulate_rows(step.exec, {profile_.kv_simulation, latent_dim, rope_dims, rows, latent, latent_dim});
  step.show(index, "q", q, heads * mla.qk_head_dim());
  step.show(index, "kv", latent, latent_dim);
  write_rows(step, streams.latent, latent);
  if (mla.index_n_heads > 0) write_index_keys(step, index);
  if (step.selects) select_keys(step, index);

  float* values = w.values.get(step.floats(heads * mla.v_head_dim));
  const std::span<const RowSpan> spans = step.tables.host_spans;
  const auto expands = [&](const RowSpan& s) { return profile_.expand_from > 0 && s.rows >= profile_.expand_from; };
  for (std::size_t from = 0; from < spans.size();) {
    std::size_t to = from;
    while (to < spans.size() && !expands(spans[to])) ++to;
    if (from < to) attend_absorbed(step, index, from, to, q, values);
    if (to < spans.size()) attend_expanded(step, index, spans[to], q, values);
    from = to + 1;
  }
  step.show(index, "attn_o", values, heads * mla.v_head_dim);
  const LinearJob out{&a.o, values, heads * mla.v_head_dim, y, hidden};
  linear(step.exec, rows, {&out, 1});
}

// Turns the queries of neighbouring spans to the latent's side, head by head, attends, and turns what comes out to
// values.
void DeepSeekMla::attend_absorbed(Step& step, int index, std::size_t from, std::size_t to, const float* q,
                                  float* values) {
  const std::span<const RowSpan> spans = step.tables.host_spans.subspan(from, to - from);
  Workspace& w = step.w;
  const AttentionWeights& a = weights_.layers[static_cast<std::size_t>(index)].attn;
  const DeepSeekMlaConfig& mla = config_.mla();
  const int heads = config_.num_attention_heads, rank = mla.kv_lora_rank, latent_dim = mla.latent_dim();
  const int nope = mla.qk_nope_head_dim, head_dim = mla.qk_head_dim(), value_dim = mla.v_head_dim;
  const std::ptrdiff_t begin = spans.front().row_begin;
  const int rows = spans.back().row_begin + spans.back().rows - spans.front().row_begin;
  float* absorbed = w.absorbed.get(step.floats(heads * latent_dim));
  float* attended = w.attended.get(step.floats(heads * rank));
  q += begin * heads * head_dim;

  std::vector<LinearJob>& jobs = w.jobs;
  jobs.clear();
  float* of_rows = absorbed + begin * heads * latent_dim;
  for (int h = 0; h < heads; ++h) {
    jobs.push_back({&a.k_up[static_cast<std::size_t>(h)], q + h * head_dim, heads * head_dim, of_rows + h * latent_dim,
                    heads * latent_dim});
  }
  linear(step.exec, rows, jobs);
  copy_heads(step.exec, {rows, heads, mla.qk_rope_head_dim, q + nope, head_dim, heads * head_dim, of_rows + rank,
                         latent_dim, heads * latent_dim});
  AttendArgs args;
  args.rows = rows, args.heads = heads, args.dims = latent_dim, args.value_dims = rank;
  args.q = absorbed, args.scale = softmax_scale_;
  args.step = &step.tables, args.spans = step.tables.spans.subspan(from, to - from);
  args.latent = &step.cache[streams_[static_cast<std::size_t>(index)].latent];
  if (step.selects) {
    args.selected = w.selected.ints(step.floats(mla.index_topk));
    args.selected_count = w.selected_count.ints(step.floats(1));
    args.max_selected = mla.index_topk;
  }
  args.out = attended;
  args.bf16 = profile_.bf16_attention();
  attend(step.exec, args);

  jobs.clear();
  for (int h = 0; h < heads; ++h) {
    jobs.push_back({&a.v_up[static_cast<std::size_t>(h)], attended + (begin * heads + h) * rank, heads * rank,
                    values + (begin * heads + h) * value_dim, heads * value_dim});
  }
  linear(step.exec, rows, jobs);
}

// Queries with their rotary dims turned, and (normed latent | rotated key that all heads share); with an indexer also
// what it projects, as it comes out of the linears.
void DeepSeekMla::project(Step& step, int index, const float* x, float* q, float* latent) {
  Workspace& w = step.w;
  const AttentionWeights& a = weights_.layers[static_cast<std::size_t>(index)].attn;
  const DeepSeekMlaConfig& mla = config_.mla();
  const int rows = step.rows(), heads = config_.num_attention_heads;
  const int q_rank = mla.q_lora_rank, q_width = heads * mla.qk_head_dim(), latent_dim = mla.latent_dim();

  float* q_a = w.q_a.get(step.floats(q_rank));
  std::vector<LinearJob>& jobs = w.jobs;
  const auto from = [&](const LinearWeight& weight, const float* input, float* output) {
    jobs.push_back({&weight, input, weight.in(), output, weight.out()});
  };
  jobs.clear();
  from(a.kv_a, x, latent);
  q_rank > 0 ? from(a.q_a, x, q_a) : from(a.q_b, x, q);
  if (mla.index_n_heads > 0) from(a.indexer.k, x, w.index_k.get(step.floats(mla.index_head_dim)));
  if (step.selects) from(a.indexer.head_weights, x, w.index_weights.get(step.floats(mla.index_n_heads)));
  linear(step.exec, rows, jobs);
  if (q_rank > 0) {
    rms_norm(step.exec, {rows, q_rank, q_a, q_rank, a.q_norm.data(), kLatentNormEps, q_a, q_rank});
    jobs.clear();
    from(a.q_b, q_a, q);
    if (step.selects) from(a.indexer.q, q_a, w.index_q.get(step.floats(a.indexer.q.out())));
    linear(step.exec, rows, jobs);
  }
  rms_norm(step.exec,
           {rows, mla.kv_lora_rank, latent, latent_dim, a.kv_norm.data(), kLatentNormEps, latent, latent_dim});

  RopeHeadsArgs rope;
  rope.rows = rows, rope.rope_dims = mla.qk_rope_head_dim;
  rope.positions = step.tables.positions.data(), rope.table = rope_.data();
  rope.half_split = !mla.rope_interleave;
  rope.heads = heads, rope.head_dim = mla.qk_head_dim(), rope.offset = mla.qk_nope_head_dim;
  rope.x = q, rope.ldx = q_width;
  rope_heads(step.exec, rope);
  rope.heads = 1, rope.head_dim = latent_dim, rope.offset = mla.kv_lora_rank;
  rope.x = latent, rope.ldx = latent_dim;
  rope_heads(step.exec, rope);
}

// Row t of x, one a token, goes to its place in `id`; not below latents_from, where it is published already.
void DeepSeekMla::write_rows(Step& step, StreamId id, const float* x) {
  const StreamView& stream = step.cache[id];
  encode_rows(step.exec, {&stream, step.rows(), x, stream.format.dims, step.tables.closed_by(1).slots});
}

}  // namespace sluice::mla
