// Attention of one layer (docs/models/deepseek_v3.md §1, docs/models/deepseek_v3.2.md §2): project, write the cache,
// then attend through it, absorbed, or in long spans of a profile that asks for it expanded.
// Used by model.cc and mtp.cc.
#include <cmath>

#include "model/deepseek_mla/step.h"

namespace sluice::mla {
namespace {

constexpr float kLatentNormEps = 1e-6F;  // for the norms of q_a and kv_a, whatever rms_norm_eps is
constexpr float kIndexNormEps = 1e-6F;

Product biased(const LinearWeight& weight, const Param<float>& bias, const Rows& y) {
  return {.weights = {&weight, 1}, .y = y, .bias = bias.empty() ? nullptr : bias.data()};
}

}  // namespace

void DeepSeekMla::attention(Step& step, int index, const Rows& x, const Rows& y) {
  Workspace& w = step.w;
  const AttentionWeights& a = layer(index).attn;
  const int rows = step.rows();
  project_and_store(step, index, x);
  if (step.selects) select_keys(step, index);
  if (config_.mla().index_n_heads > 0) {
    step.export_entries(index, 1, config_.mla().index_topk, step.selects, w.selected, w.selected_count);
  }

  const std::span<const RowSpan> spans = step.tables.host_spans;
  const auto expands = [&](const RowSpan& s) { return profile_.expand_from > 0 && s.rows >= profile_.expand_from; };
  for (std::size_t from = 0; from < spans.size();) {
    std::size_t to = from;
    while (to < spans.size() && !expands(spans[to])) ++to;
    if (from < to) attend_absorbed(step, index, from, to);
    if (to < spans.size()) attend_expanded(step, index, spans[to]);
    from = to + 1;
  }
  step.show(index, "q", w.q.rows(rows));
  const Rows values = w.values.rows(rows), own_y = step.own_part(y, &OwnColumns::y);
  step.gather(step.own_part(values, &OwnColumns::heads), values);
  step.show(index, "attn_o", values);
  project(step.exec, ProjectArgs{.rows = rows, .x = values}.add(biased(a.o, a.o_bias, own_y)));
  step.gather(own_y, y);
}

// Queries as they come out of their product, and in the cache (normed latent | rotated key that all heads share); with
// an indexer also its keys, queries and weights.
void DeepSeekMla::project_and_store(Step& step, int index, const Rows& x) {
  Workspace& w = step.w;
  const AttentionWeights& a = layer(index).attn;
  const DeepSeekMlaConfig& mla = config_.mla();
  const int rows = step.rows();
  ProjectArgs from_q_a{.rows = rows};
  const Rows q = w.q.rows(rows);

  if (mla.q_lora_rank > 0) from_q_a.add(a.q_b, q);
  if (step.selects) from_q_a.add(a.indexer.q, w.index_q.rows(rows));
  from_q_a.x = w.q_a.rows(rows, from_q_a.forms());
  ProjectArgs from_x{.rows = rows, .x = x};
  add_keys(step, index, &from_x);
  if (mla.q_lora_rank > 0) {
    Product q_a = biased(a.q_a, a.q_a_bias, from_q_a.x);
    q_a.norm = a.q_norm.data(), q_a.norm_eps = kLatentNormEps;
    from_x.add(q_a);
  } else {
    from_x.add(a.q_b, q);
  }
  if (step.selects) from_x.add(a.indexer.head_weights, w.index_weights.rows(rows));
  project(step.exec, from_x);
  if (mla.q_lora_rank > 0) project(step.exec, from_q_a);
  store_keys(step, index);
}

void DeepSeekMla::add_keys(Step& step, int index, ProjectArgs* from_x) const {
  const AttentionWeights& a = layer(index).attn;
  from_x->add(biased(a.kv_a, a.kv_a_bias, step.w.latent.rows(step.rows())));
  if (config_.mla().index_n_heads > 0) from_x->add(a.indexer.k, step.w.index_k.rows(step.rows()));
}

void DeepSeekMla::store_keys(Step& step, int index) const {
  const AttentionWeights& a = layer(index).attn;
  const LayerPlanes& planes = planes_[static_cast<std::size_t>(index)];
  const DeepSeekMlaConfig& mla = config_.mla();
  const int rope_dims = mla.qk_rope_head_dim, index_dim = mla.index_head_dim;
  const Rows latent = step.w.latent.rows(step.rows()), index_k = step.w.index_k.rows(step.rows());
  StoreKvArgs store{.step = &step.tables};
  store.add({.planes = &step.cache[planes.latent],
             .ratio = 1,
             .dims = mla.latent_dim(),
             .x = latent.values,
             .norm = {a.kv_norm.data(), nullptr, kLatentNormEps, mla.kv_lora_rank},
             .rope = {rope(index), rope_dims, mla.kv_lora_rank, !mla.rope_interleave},
             .simulation = profile_.kv_simulation,
             .simulated_rope_dims = rope_dims});
  if (mla.index_n_heads > 0) {
    store.add({.planes = &step.cache[planes.index],
               .ratio = 1,
               .dims = index_dim,
               .x = index_k.values,
               .norm = {a.indexer.k_norm.data(), a.indexer.k_norm_bias.data(), kIndexNormEps, index_dim},
               .rope = {rope(index), rope_dims, 0, /*half_split=*/true},
               .hadamard = profile_.index_hadamard,
               .simulation = profile_.simulate_index ? profile_.index_query : RowCodec::kF32});
  }
  store_kv(step.exec, store);
  step.show(index, "kv", latent);
  if (mla.index_n_heads > 0) step.show(index, "index_k", index_k);
}

// Selects the index_topk best keys of each row, or all while there are no more (docs/models/deepseek_v3.2.md §1).
void DeepSeekMla::select_keys(Step& step, int index) {
  Workspace& w = step.w;
  const DeepSeekMlaConfig& mla = config_.mla();
  const int rows = step.rows(), heads = mla.index_n_heads, dim = mla.index_head_dim;
  IndexSelectArgs args;
  args.rows = rows, args.heads = heads, args.dims = dim;
  args.q = w.index_q.floats(rows), args.weights = w.index_weights.floats(rows);
  args.query_rope = {rope(index), mla.qk_rope_head_dim, 0, /*half_split=*/true};
  args.query_hadamard = profile_.index_hadamard, args.query_simulation = profile_.index_query;
  args.weight_factor =
      static_cast<float>(1.0 / std::sqrt(static_cast<double>(dim)) / std::sqrt(static_cast<double>(heads)));
  args.step = &step.tables;
  args.keys = &step.cache[planes_[static_cast<std::size_t>(index)].index];
  args.tokens_per_row = 1, args.top_k = mla.index_topk, args.first_entry = first_key(index);
  args.selected = w.selected.ints(rows), args.count = w.selected_count.ints(rows);
  const DeviceMemory scores = step.score_all(&args);
  index_select(step.exec, args);
  step.show(index, "index_q", w.index_q.rows(rows));
  if (args.scores != nullptr) step.show(index, "index_scores", args.scores, rows, args.scores_stride);
}

// Turns the queries of neighbouring spans to the latent's side, head by head, attends, and turns what comes out to
// values.
void DeepSeekMla::attend_absorbed(Step& step, int index, std::size_t from, std::size_t to) {
  Workspace& w = step.w;
  const std::span<const RowSpan> spans = step.tables.host_spans.subspan(from, to - from);
  const AttentionWeights& a = layer(index).attn;
  const DeepSeekMlaConfig& mla = config_.mla();
  const int heads = heads_, rank = mla.kv_lora_rank, all = step.rows();
  const int begin = spans.front().row_begin, rows = spans.back().row_begin + spans.back().rows - begin;
  const Rows q = by_head(w.q.rows(all), begin, mla.qk_nope_head_dim);
  const Rows absorbed = by_head(w.absorbed.rows(all), begin, rank);
  const Rows attended = by_head(w.attended.rows(all), begin, rank);
  const Rows values = by_head(step.own_part(w.values.rows(all), &OwnColumns::heads), begin, mla.v_head_dim);
  project(step.exec,
          ProjectArgs{.rows = rows, .x = q}.add({.weights = a.k_up, .y = absorbed, .y_step = absorbed.part_step}));
  AttendArgs args;
  args.rows = rows, args.heads = heads, args.dims = mla.latent_dim(), args.value_dims = rank;
  args.q = w.absorbed.floats(all), args.scale = softmax_scale_;
  args.query = query_form(index), args.query_heads = w.q.floats(all), args.query_dims = mla.qk_head_dim();
  args.step = &step.tables, args.spans = step.tables.spans.subspan(from, to - from);
  args.latent = &step.cache[planes_[static_cast<std::size_t>(index)].latent];
  args.first_key = first_key(index);
  if (step.selects) {
    args.selected = w.selected.ints(all), args.selected_count = w.selected_count.ints(all);
    args.max_selected = mla.index_topk;
  }
  args.out = w.attended.floats(all);
  args.bf16 = profile_.bf16_attention();
  args.tiles = profile_.tiles_attention();
  attend(step.exec, args);
  project(step.exec,
          ProjectArgs{.rows = rows, .x = attended}.add({.weights = a.v_up, .y = values, .y_step = values.part_step}));
}

void DeepSeekMla::attend_expanded(Step& step, int index, const RowSpan& span) {
  Workspace& w = step.w;
  const AttentionWeights& a = layer(index).attn;
  const DeepSeekMlaConfig& mla = config_.mla();
  ExpandAndAttendArgs args;
  args.step = &step.tables, args.span = span;
  args.heads = heads_, args.key_dims = mla.qk_head_dim(), args.value_dims = mla.v_head_dim;
  args.rank = mla.kv_lora_rank, args.prefix_chunk = profile_.prefix_chunk;
  args.k_expand = a.k_expand, args.v_up = a.v_up;
  args.latent = &step.cache[planes_[static_cast<std::size_t>(index)].latent];
  args.q = w.q.floats(step.rows()), args.query = query_form(index), args.scale = softmax_scale_;
  args.latents = w.piece_latents.floats(1), args.expanded = w.expanded.floats(1);
  args.piece = w.piece.floats(span.rows), args.piece_lse = w.piece_lse.floats(span.rows);
  args.lse = w.lse.floats(span.rows);
  args.out = step.own_part(w.values.rows(step.rows()), &OwnColumns::heads).values;
  expand_and_attend(step.exec, args);
}

HeadForm DeepSeekMla::query_form(int index) const {
  const DeepSeekMlaConfig& mla = config_.mla();
  return {.rope = {rope(index), mla.qk_rope_head_dim, mla.qk_nope_head_dim, !mla.rope_interleave}};
}

// Rows from `begin` on, of which each head is a part, `columns` of it.
Rows DeepSeekMla::by_head(const Rows& rows, int begin, int columns) const {
  return {.values = rows.values + begin * rows.ld,
          .ld = rows.ld,
          .columns = columns,
          .parts = heads_,
          .part_step = rows.ld / heads_};
}

}  // namespace sluice::mla
