// Attention of one layer (docs/models/deepseek_v4.md §4): project, write the cache, then attend through it.
// Used by model.cc and mtp.cc.
#include <algorithm>
#include <cmath>

#include "model/deepseek_v4/step.h"

namespace sluice::v4 {
namespace {

void add_compressor(const CompressorWeights& weights, const CompressorScratch& w, ProjectArgs* args) {
  const int width = weights.kv.out();
  args->add(weights.kv, contiguous_rows(w.kv.floats(args->rows), width));
  args->add(weights.gate, contiguous_rows(w.gate.floats(args->rows), width));
}

}  // namespace

void DeepSeekV4::attention(Step& step, int index, const Rows& y) {
  Workspace& w = step.w;
  const LayerWeights& weights = layer(index);
  const AttentionWeights& a = weights.attn;
  const LayerPlanes& planes = planes_[static_cast<std::size_t>(index)];
  const DeepSeekV4Config& v4 = config_.v4();
  const int ratio = compress_ratio(index);
  const int rows = step.rows(), heads = heads_, dim = config_.head_dim;
  const auto eps = static_cast<float>(config_.rms_norm_eps);
  const bool indexes = ratio == 4, selects = indexes && step.scores_index;
  const Rows q = w.q.rows(rows), kv = w.kv.rows(rows);
  // A part for each group of heads. A form of all of them side by side needs groups of whole blocks.
  const int groups = static_cast<int>(a.o_a.size()), group_in = heads * dim / groups;
  constexpr int kBlocks = 128;
  Rows o = w.attended.rows(rows, group_in % kBlocks == 0 ? InputForms().add(a.o_a.front()) : InputForms());
  o.columns = group_in, o.parts = groups, o.part_step = group_in;

  ProjectArgs from_x{.rows = rows}, from_q_a{.rows = rows};
  from_q_a.add(a.q_b, q);
  if (selects) from_q_a.add(a.indexer.q, w.index_q.rows(rows));
  const Rows q_a = from_q_a.x = w.q_a.rows(rows, from_q_a.forms());
  from_x.add({.weights = {&a.q_a, 1}, .y = q_a, .norm = a.q_norm.data(), .norm_eps = eps}).add(a.kv, kv);
  if (ratio != 0) add_compressor(a.compressor, w.compressor, &from_x);
  if (indexes) add_compressor(a.indexer.compressor, w.index_compressor, &from_x);
  if (selects) from_x.add(a.indexer.head_weights, w.index_weights.rows(rows));
  from_x.x = enter(step, index, weights.hc_attn, weights.attn_norm, from_x.forms());
  project(step.exec, from_x);
  step.show(index, "qr", q_a);
  project(step.exec, from_q_a);

  // Write the cache: the window rows, then the compressed entries that close in this step.
  StoreKvArgs store{.step = &step.tables, .beside_last = true};  // the products of q_a
  store.add(window_rows(step, index));
  if (ratio != 0) store.add(entries(step, index, false));
  if (indexes) store.add(entries(step, index, true));
  store_kv(step.exec, store);
  step.show(index, "kv", kv);
  for (int kind = 1; kind < store.count; ++kind) {
    step.show(index, kind == 1 ? "compressed" : "index_k", store.kinds[static_cast<std::size_t>(kind)].x,
              step.tables.closed_by(ratio).count, store.kinds[static_cast<std::size_t>(kind)].dims);
  }
  if (selects) select_entries(step, index);
  if (indexes) step.export_entries(index, ratio, v4.index_topk, selects, w.selected, w.selected_count);

  // Attend through it.
  AttendArgs args;
  args.rows = rows, args.heads = heads, args.dims = dim, args.value_dims = dim;
  args.q = q.values, args.query = {nullptr, eps, rope(index)};
  args.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(dim)));
  args.sink = a.sink.data();
  args.step = &step.tables, args.spans = step.tables.spans;
  args.window = &step.cache[planes.window], args.window_tokens = v4.sliding_window;
  if (index == mtp_index()) args.first_key = 1;  // slot 0 belongs to no position
  if (ratio != 0) args.latent = &step.cache[planes.latent], args.tokens_per_row = ratio;
  if (selects) {
    args.selected = w.selected.ints(rows), args.selected_count = w.selected_count.ints(rows);
    args.max_selected = v4.index_topk;
  }
  args.out = o.values, args.out_rope = rope(index), args.out_rows = o;
  args.forms_only = step.observer == nullptr && std::ranges::all_of(a.o_a, [&](const LinearWeight& weight) {
                      return o.form(weight.input_form()) != nullptr;
                    });
  args.bf16 = profile_.bf16_attention();
  args.tiles = profile_.tiles_attention();
  attend(step.exec, args);
  step.show(index, "q", q);
  step.show(index, "attn_o", w.attended.rows(rows));

  // Grouped output projection: each group of heads through its own block of o_a, then all through o_b.
  const InputForms u_forms = InputForms().add(a.o_b);
  const Rows u = w.o_a.rows(rows, u_forms), own_u = step.own_part(u, &OwnColumns::heads, u_forms);
  project(step.exec, ProjectArgs{.rows = rows, .x = o}.add({.weights = a.o_a, .y = own_u, .y_step = v4.o_lora_rank}));
  step.gather(own_u, u, &a.o_b);
  const Rows own_y = step.own_part(y, &OwnColumns::y);
  project(step.exec, rows, u, a.o_b, own_y);
  step.gather(own_y, y);
}

// Computes the rows' keys, which are values as well (docs/models/deepseek_v4.md §4.2).
KvRows DeepSeekV4::window_rows(Step& step, int index) const {
  const int dim = config_.head_dim;
  return {.planes = &step.cache[planes_[static_cast<std::size_t>(index)].window],
          .dims = dim,
          .x = step.w.kv.floats(step.rows()),
          .norm = {layer(index).attn.kv_norm.data(), nullptr, static_cast<float>(config_.rms_norm_eps), dim},
          .rope = rope(index),
          .simulation = profile_.kv_simulation,
          .simulated_rope_dims = config_.v4().qk_rope_head_dim};
}

// Computes the compressed entries that close in this step (docs/models/deepseek_v4.md §6), or the indexer's keys of
// them.
KvRows DeepSeekV4::entries(Step& step, int index, bool of_index) const {
  const AttentionWeights& a = weights_.layers[static_cast<std::size_t>(index)].attn;
  const LayerPlanes& planes = planes_[static_cast<std::size_t>(index)];
  const DeepSeekV4Config& v4 = config_.v4();
  const CompressorWeights& weights = of_index ? a.indexer.compressor : a.compressor;
  const CompressorScratch& w = of_index ? step.w.index_compressor : step.w.compressor;
  const PlaneId open = of_index ? planes.index_open : planes.open;
  const int ratio = v4.layers[static_cast<std::size_t>(index)].compress_ratio;
  const int dim = of_index ? v4.index_head_dim : config_.head_dim, rope_dims = v4.qk_rope_head_dim;
  KvRows rows;
  rows.planes = &step.cache[of_index ? planes.index_latent : planes.latent];
  rows.ratio = ratio, rows.dims = dim;
  rows.x = w.pooled.floats(step.tables.closed_by(ratio).count);
  rows.compressor.overlap = ratio == 4;
  rows.compressor.kv = w.kv.floats(step.rows()), rows.compressor.gate = w.gate.floats(step.rows());
  rows.compressor.ld = weights.kv.out(), rows.compressor.ape = weights.ape.data();
  rows.compressor.states = step.cache.states(open), rows.compressor.state_bytes = step.cache.open_stride;
  if (layout_[open].boundary_bytes > 0) rows.compressor.boundaries = &step.cache[open];
  rows.norm = {weights.norm.data(), nullptr, static_cast<float>(config_.rms_norm_eps), dim};
  rows.rope = {compress_rope().data(), rope_dims, dim - rope_dims};
  if (of_index) {
    rows.hadamard = profile_.index_hadamard;
    rows.simulation = profile_.simulate_index ? profile_.index_query : RowCodec::kF32;
  } else {
    rows.simulation = profile_.kv_simulation, rows.simulated_rope_dims = rope_dims;
  }
  return rows;
}

// Runs the lightning indexer (docs/models/deepseek_v4.md §7): selects the compressed entries each row attends to.
void DeepSeekV4::select_entries(Step& step, int index) {
  Workspace& w = step.w;
  const DeepSeekV4Config& v4 = config_.v4();
  const int rows = step.rows(), heads = v4.index_n_heads, dim = v4.index_head_dim, rope_dims = v4.qk_rope_head_dim;
  IndexSelectArgs args;
  args.rows = rows, args.heads = heads, args.dims = dim;
  args.q = w.index_q.floats(rows), args.weights = w.index_weights.floats(rows);
  args.query_rope = {compress_rope().data(), rope_dims, dim - rope_dims};
  args.query_hadamard = profile_.index_hadamard, args.query_simulation = profile_.index_query;
  args.weight_factor =
      static_cast<float>(1.0 / std::sqrt(static_cast<double>(dim)) / std::sqrt(static_cast<double>(heads)));
  args.step = &step.tables;
  args.keys = &step.cache[planes_[static_cast<std::size_t>(index)].index_latent];
  args.tokens_per_row = 4, args.top_k = v4.index_topk;
  args.selected = w.selected.ints(rows), args.count = w.selected_count.ints(rows);
  const DeviceMemory scores = step.score_all(&args);
  index_select(step.exec, args);
  step.show(index, "index_q", w.index_q.rows(rows));
  if (args.scores != nullptr) step.show(index, "index_scores", args.scores, rows, args.scores_stride);
}

}  // namespace sluice::v4
