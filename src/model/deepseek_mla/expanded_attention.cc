// Attention of one long span over keys and values of its own heads, k_nope = W_UK c and v = W_UV c, made anew for every
// layer and step: first of the prefix, in pieces of NumericsProfile::prefix_chunk tokens, then of the span itself. The
// pieces' results meet by their log-sum-exp (kernels/attend_expanded.h). The latents come out of the cache, as for
// absorbed rows.
//
// A key costs rank * (nope + v) products in the making, and saves a row 2 * rank - nope - v of them, per head: with
// 512, 128 and 128 it pays from 171 rows on, and earlier in fact, since making them is a plain matrix product, and
// since those of the span itself cost no more than turning its queries and values would.
#include <algorithm>

#include "kernels/attend_expanded.h"
#include "kernels/elementwise.h"
#include "kernels/stream.h"
#include "model/deepseek_mla/step.h"

namespace sluice::mla {
namespace {

// So many heads are expanded at a time that they take about this much memory.
constexpr std::size_t kExpandedFloats = std::size_t{1} << 22;

int heads_at_once(int heads, int keys, int row_floats) {
  const std::size_t head_floats = static_cast<std::size_t>(keys) * static_cast<std::size_t>(row_floats);
  return static_cast<int>(std::clamp<std::size_t>(kExpandedFloats / head_floats, 1, static_cast<std::size_t>(heads)));
}

}  // namespace

void DeepSeekMla::reserve_expanded(std::size_t rows) {
  Workspace& w = *workspace_;
  const DeepSeekMlaConfig& mla = config_.mla();
  const auto heads = static_cast<std::size_t>(config_.num_attention_heads);
  const std::size_t keys = std::max(rows, static_cast<std::size_t>(profile_.prefix_chunk));
  const std::size_t head_floats =
      keys * static_cast<std::size_t>(expanded_row_floats(mla.qk_head_dim(), mla.v_head_dim));
  w.scratch.add(keys * static_cast<std::size_t>(mla.latent_dim()), &w.piece_latents);
  w.scratch.add(std::min(heads * head_floats, std::max(head_floats, kExpandedFloats)), &w.expanded);
  w.scratch.add(rows * heads * static_cast<std::size_t>(mla.v_head_dim), &w.piece);
  w.scratch.add(rows * heads, &w.piece_lse);
  w.scratch.add(rows * heads, &w.lse);
}

void DeepSeekMla::attend_expanded(Step& step, int index, const RowSpan& span, const float* q, float* values) {
  Workspace& w = step.w;
  const DeepSeekMlaConfig& mla = config_.mla();
  const int heads = config_.num_attention_heads;
  const std::ptrdiff_t first_row = span.row_begin;
  const std::size_t results = static_cast<std::size_t>(span.rows) * static_cast<std::size_t>(heads);
  q += first_row * heads * mla.qk_head_dim();
  values += first_row * heads * mla.v_head_dim;
  float* lse = w.lse.get(results);
  const Position own = span.first_position, end = own + span.rows;
  for (Position first = 0, last = 0; first < end; first = last) {
    last = first < own ? std::min(own, first + profile_.prefix_chunk) : end;
    if (first == 0) {
      attend_piece(step, index, span, first, last, q, values, lse);
      continue;
    }
    float* piece = w.piece.get(results * static_cast<std::size_t>(mla.v_head_dim));
    float* piece_lse = w.piece_lse.get(results);
    attend_piece(step, index, span, first, last, q, piece, piece_lse);
    merge_attention(step.exec, {static_cast<int>(results), mla.v_head_dim, piece, piece_lse, values, lse});
  }
}

// The span's rows over the keys at positions [first, last).
void DeepSeekMla::attend_piece(Step& step, int index, const RowSpan& span, Position first, Position last,
                               const float* q, float* out, float* lse) {
  Workspace& w = step.w;
  const StreamView& stream = step.cache[streams_[static_cast<std::size_t>(index)].latent];
  const DeepSeekMlaConfig& mla = config_.mla();
  const int keys = last - first, heads = config_.num_attention_heads, latent_dim = mla.latent_dim();
  float* latents = w.piece_latents.get(static_cast<std::size_t>(keys) * static_cast<std::size_t>(latent_dim));
  decode_rows(step.exec, {&step.tables, span, &stream, first, keys, latents});

  AttendExpandedArgs args;
  args.rows = span.rows, args.key_dims = mla.qk_head_dim(), args.value_dims = mla.v_head_dim;
  args.ldq = heads * args.key_dims, args.ldo = heads * args.value_dims, args.ld_lse = heads;
  args.scale = softmax_scale_;
  args.keys = keys, args.visible = span.first_position + 1 - first;
  const int group = heads_at_once(heads, keys, expanded_row_floats(args.key_dims, args.value_dims));
  for (int head = 0; head < heads; head += group) {
    args.heads = std::min(group, heads - head);
    args.kv = expand(step, index, latents, keys, head, args.heads);
    args.q = q + head * args.key_dims;
    args.out = out + head * args.value_dims;
    args.lse = lse + head;
    sluice::attend_expanded(step.exec, args);
  }
}

// Keys and values of heads [head, head + count): [count, keys, expanded_row_floats].
const float* DeepSeekMla::expand(Step& step, int index, const float* latents, int keys, int head, int count) {
  Workspace& w = step.w;
  const AttentionWeights& a = weights_.layers[static_cast<std::size_t>(index)].attn;
  const DeepSeekMlaConfig& mla = config_.mla();
  const int key_dims = mla.qk_head_dim(), offset = expanded_value_offset(key_dims), latent_dim = mla.latent_dim();
  const int row = expanded_row_floats(key_dims, mla.v_head_dim);
  const std::ptrdiff_t head_floats = std::ptrdiff_t{keys} * row;
  float* kv = w.expanded.get(static_cast<std::size_t>(count * head_floats));
  std::vector<LinearJob>& jobs = w.jobs;
  jobs.clear();
  for (int h = 0; h < count; ++h) {
    const auto of = static_cast<std::size_t>(head + h);
    jobs.push_back({&a.k_expand[of], latents, latent_dim, kv + h * head_floats, row});
    jobs.push_back({&a.v_up[of], latents, latent_dim, kv + h * head_floats + offset, row});
  }
  linear(step.exec, keys, jobs);
  copy_heads(step.exec, {keys, count, mla.qk_rope_head_dim, latents + mla.kv_lora_rank, 0, latent_dim,
                         kv + mla.qk_nope_head_dim, head_floats, row, /*zeros=*/offset - key_dims});
  return kv;
}

}  // namespace sluice::mla
