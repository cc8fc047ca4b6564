// Attention of one layer (spec section 4): project, write the cache, then attend through it.
#include <cmath>

#include "kernels/elementwise.h"
#include "kernels/indexer.h"
#include "kernels/stream.h"
#include "model/deepseek_v4/step.h"

namespace sluice::v4 {
void DeepSeekV4::attention(Step& step, int index, const float* x, float* y) {
  Workspace& w = step.w;
  const AttentionWeights& a = weights_.layers[static_cast<std::size_t>(index)].attn;
  const LayerStreams& streams = streams_[static_cast<std::size_t>(index)];
  const DeepSeekV4Config& v4 = config_.v4();
  const int ratio = v4.layers[static_cast<std::size_t>(index)].compress_ratio;
  const int rows = step.rows(), hidden = config_.hidden_size, heads = config_.num_attention_heads;
  const int dim = config_.head_dim, rank = v4.q_lora_rank, rope_dims = v4.qk_rope_head_dim;
  const auto eps = static_cast<float>(config_.rms_norm_eps);
  const float* rope = (ratio == 0 ? window_rope_ : compress_rope_).data();

  // Everything that is projected from x, in one stage.
  float* q_a = w.q_a.get(step.floats(rank));
  float* kv = w.kv.get(step.floats(dim));
  std::vector<LinearJob> jobs{{&a.q_a, x, hidden, q_a, rank}, {&a.kv, x, hidden, kv, dim}};
  const auto project = [&](const LinearWeight& weight, const ScratchTensor& into) {
    float* out = into.get(step.floats(weight.out()));
    jobs.push_back({&weight, x, hidden, out, weight.out()});
    return out;
  };
  const float *comp_kv = nullptr, *comp_gate = nullptr, *index_kv = nullptr, *index_gate = nullptr;
  if (ratio != 0) {
    comp_kv = project(a.compressor.kv, w.comp_kv);
    comp_gate = project(a.compressor.gate, w.comp_gate);
  }
  if (ratio == 4) {
    index_kv = project(a.indexer.compressor.kv, w.index_kv);
    index_gate = project(a.indexer.compressor.gate, w.index_gate);
    if (step.scores_index) project(a.indexer.head_weights, w.index_weights);
  }
  linear(step.exec, rows, jobs);
  rms_norm(step.exec, {rows, rank, q_a, rank, a.q_norm.data(), eps, q_a, rank});
  rms_norm(step.exec, {rows, dim, kv, dim, a.kv_norm.data(), eps, kv, dim});
  step.show(index, "qr", q_a, rows, rank);

  float* q = w.q.get(step.floats(heads * dim));
  jobs.assign({{&a.q_b, q_a, rank, q, heads * dim}});
  if (ratio == 4 && step.scores_index) {
    jobs.push_back({&a.indexer.q, q_a, rank, w.index_q.get(step.floats(a.indexer.q.out())), a.indexer.q.out()});
  }
  linear(step.exec, rows, jobs);
  const Position* positions = step.tables.positions.data();
  rope_heads(step.exec, {rows, heads, dim, rope_dims, dim - rope_dims, q, heads * dim, positions, rope, false, eps});
  rope_heads(step.exec, {rows, 1, dim, rope_dims, dim - rope_dims, kv, dim, positions, rope, false, -1.0F});
  step.show(index, "q", q, rows, heads * dim);

  // Write the cache: the window rows, then the compressed entries that close in this step.
  simulate_rows(step.exec, {profile_.kv_simulation, dim, rope_dims, rows, kv, dim});
  step.show(index, "kv", kv, rows, dim);
  const StreamView& window = step.cache[streams.window];
  encode_rows(step.exec, {&window, rows, kv, dim, step.tables.window_slots});
  if (ratio != 0) {
    compress_layer(step, index, a.compressor, streams.open, streams.latent, dim, false, comp_kv, comp_gate);
  }
  if (ratio == 4) {
    compress_layer(step, index, a.indexer.compressor, streams.index_open, streams.index_latent, v4.index_head_dim, true,
                   index_kv, index_gate);
    if (step.scores_index) select_entries(step, index);
  }

  // Attend through it.
  float* o = w.attended.get(step.floats(heads * dim));
  AttendArgs args;
  args.rows = rows, args.heads = heads, args.dims = dim, args.value_dims = dim;
  args.q = q;
  args.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(dim)));
  args.sink = a.sink.data();
  args.step = &step.tables, args.spans = step.tables.spans;
  args.window = &window, args.window_tokens = v4.sliding_window;
  if (ratio != 0) args.latent = &step.cache[streams.latent], args.tokens_per_row = ratio;
  if (ratio == 4 && step.scores_index) {
    args.selected = w.selected.ints(step.floats(v4.index_topk));
    args.selected_count = w.selected_count.ints(step.floats(1));
    args.max_selected = v4.index_topk;
  }
  args.out = o;
  args.bf16 = profile_.bf16_attention();
  attend(step.exec, args);
  rope_heads(step.exec, {rows, heads, dim, rope_dims, dim - rope_dims, o, heads * dim, positions, rope, true, -1.0F});
  step.show(index, "attn_o", o, rows, heads * dim);

  // Grouped output projection: each group of heads through its own block of o_a, then all through o_b.
  const int groups = v4.o_groups, group_in = heads * dim / groups, group_out = v4.o_lora_rank;
  float* u = w.o_a.get(step.floats(groups * group_out));
  jobs.clear();
  for (int g = 0; g < groups; ++g) {
    jobs.push_back(
        {&a.o_a[static_cast<std::size_t>(g)], o + g * group_in, heads * dim, u + g * group_out, groups * group_out});
  }
  linear(step.exec, rows, jobs);
  const LinearJob out{&a.o_b, u, groups * group_out, y, hidden};
  linear(step.exec, rows, {&out, 1});
}

// Pools the windows that close in this step (spec section 6), and writes them as rows of `latent`.
void DeepSeekV4::compress_layer(Step& step, int index, const CompressorWeights& weights, StreamId open, StreamId latent,
                                int dim, bool is_index, const float* kv, const float* gate) {
  Workspace& w = step.w;
  const int ratio = config_.v4().layers[static_cast<std::size_t>(index)].compress_ratio;
  const int rope_dims = config_.v4().qk_rope_head_dim;
  const auto eps = static_cast<float>(config_.rms_norm_eps);
  const StreamView& entries = step.cache[latent];
  const ClosedWindows& closed = step.tables.closed_by(ratio);
  float* pooled = (is_index ? w.index_pooled : w.pooled)
                      .get(static_cast<std::size_t>(closed.count) * static_cast<std::size_t>(dim));
  CompressArgs args;
  args.dim = dim, args.ratio = ratio, args.overlap = ratio == 4;
  args.kv = kv, args.gate = gate, args.ld = weights.kv.out();
  args.ape = weights.ape.data();
  args.step = &step.tables;
  args.states = step.cache.states(open), args.state_bytes = step.cache.open_stride;
  args.pooled = pooled;
  if (layout_[open].boundary_bytes > 0) args.boundaries = &step.cache[open];
  compress(step.exec, args);
  const int pooled_rows = closed.count;
  if (pooled_rows == 0) return;

  rms_norm(step.exec, {pooled_rows, dim, pooled, dim, weights.norm.data(), eps, pooled, dim});
  rope_heads(step.exec, {pooled_rows, 1, dim, rope_dims, dim - rope_dims, pooled, dim, closed.positions,
                         compress_rope_.data(), false, -1.0F});
  if (is_index) {
    if (profile_.index_hadamard) hadamard(step.exec, {pooled_rows, dim, pooled});
    if (profile_.simulate_index) simulate_rows(step.exec, {profile_.index_query, dim, 0, pooled_rows, pooled, dim});
  } else {
    simulate_rows(step.exec, {profile_.kv_simulation, dim, rope_dims, pooled_rows, pooled, dim});
  }
  step.show(index, is_index ? "index_k" : "compressed", pooled, pooled_rows, dim);
  encode_rows(step.exec, {&entries, pooled_rows, pooled, dim, closed.slots});
}

// The lightning indexer (spec section 7): which compressed entries each row attends to.
void DeepSeekV4::select_entries(Step& step, int index) {
  Workspace& w = step.w;
  const DeepSeekV4Config& v4 = config_.v4();
  const int rows = step.rows(), heads = v4.index_n_heads, dim = v4.index_head_dim, rope_dims = v4.qk_rope_head_dim;
  float* q = w.index_q.get(step.floats(heads * dim));
  float* weights = w.index_weights.get(step.floats(heads));
  rope_heads(step.exec, {rows, heads, dim, rope_dims, dim - rope_dims, q, heads * dim, step.tables.positions.data(),
                         compress_rope_.data(), false, -1.0F});
  if (profile_.index_hadamard) hadamard(step.exec, {rows * heads, dim, q});
  if (profile_.index_query != RowCodec::kF32) {
    simulate_rows(step.exec, {profile_.index_query, dim, 0, rows * heads, q, dim});
  }
  const auto factor =
      static_cast<float>(1.0 / std::sqrt(static_cast<double>(dim)) / std::sqrt(static_cast<double>(heads)));
  scale(step.exec, {rows, heads, factor, weights});
  step.show(index, "index_q", q, rows, heads * dim);

  IndexSelectArgs args;
  args.rows = rows, args.heads = heads, args.dims = dim;
  args.q = q, args.weights = weights;
  args.step = &step.tables;
  args.keys = &step.cache[streams_[static_cast<std::size_t>(index)].index_latent];
  args.tokens_per_row = 4, args.top_k = v4.index_topk;
  args.selected = w.selected.ints(step.floats(v4.index_topk)), args.count = w.selected_count.ints(step.floats(1));
  if (step.probe != nullptr) {
    step.device().wait();  // the buffer may grow
    args.scores_stride = step.tables.end / 4;
    args.scores = w.index_scores.get(step.floats(args.scores_stride));
  }
  index_select(step.exec, args);
  step.show(index, "index_scores", args.scores, rows, args.scores_stride);
}

}  // namespace sluice::v4
