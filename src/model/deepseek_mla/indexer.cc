// The lightning indexer over tokens (spec section 19): keys of every row, and the keys that a row attends to.
#include "kernels/indexer.h"

#include <cmath>

#include "kernels/elementwise.h"
#include "kernels/stream.h"
#include "model/deepseek_mla/step.h"

namespace sluice::mla {
namespace {

constexpr float kIndexNormEps = 1e-6F;

}  // namespace

void DeepSeekMla::write_index_keys(Step& step, int index) {
  const IndexerWeights& indexer = weights_.layers[static_cast<std::size_t>(index)].attn.indexer;
  const int rows = step.rows(), dim = config_.mla().index_head_dim, rope_dims = config_.mla().qk_rope_head_dim;
  float* k = step.w.index_k.get(step.floats(dim));
  layer_norm(step.exec, {rows, dim, k, dim, indexer.k_norm.data(), indexer.k_norm_bias.data(), kIndexNormEps, k, dim});
  rope_heads(step.exec, {rows, 1, dim, rope_dims, 0, k, dim, step.tables.positions.data(), rope_.data(), false, -1.0F,
                         /*half_split=*/true});
  if (profile_.index_hadamard) hadamard(step.exec, {rows, dim, k});
  if (profile_.simulate_index) simulate_rows(step.exec, {profile_.index_query, dim, 0, rows, k, dim});
  step.show(index, "index_k", k, dim);
  write_rows(step, streams_[static_cast<std::size_t>(index)].index, k);
}

// The index_topk best keys of each row, all of them while there are no more.
void DeepSeekMla::select_keys(Step& step, int index) {
  Workspace& w = step.w;
  const DeepSeekMlaConfig& mla = config_.mla();
  const int rows = step.rows(), heads = mla.index_n_heads, dim = mla.index_head_dim;
  float* q = w.index_q.get(step.floats(heads * dim));
  float* weights = w.index_weights.get(step.floats(heads));
  rope_heads(step.exec, {rows, heads, dim, mla.qk_rope_head_dim, 0, q, heads * dim, step.tables.positions.data(),
                         rope_.data(), false, -1.0F, /*half_split=*/true});
  if (profile_.index_hadamard) hadamard(step.exec, {rows * heads, dim, q});
  simulate_rows(step.exec, {profile_.index_query, dim, 0, rows * heads, q, dim});
  const auto factor =
      static_cast<float>(1.0 / std::sqrt(static_cast<double>(dim)) / std::sqrt(static_cast<double>(heads)));
  sluice::scale(step.exec, {rows, heads, factor, weights});
  step.show(index, "index_q", q, heads * dim);

  IndexSelectArgs args;
  args.rows = rows, args.heads = heads, args.dims = dim;
  args.q = q, args.weights = weights;
  args.step = &step.tables;
  args.keys = &step.cache[streams_[static_cast<std::size_t>(index)].index];
  args.tokens_per_row = 1, args.top_k = mla.index_topk;
  args.selected = w.selected.ints(step.floats(mla.index_topk)), args.count = w.selected_count.ints(step.floats(1));
  if (step.probe != nullptr) {
    step.device().wait();  // the buffer may grow
    args.scores_stride = step.tables.end;
    args.scores = w.index_scores.get(step.floats(step.tables.end));
  }
  index_select(step.exec, args);
  step.show(index, "index_scores", args.scores, args.scores_stride);
}

}  // namespace sluice::mla
