// Attention of one layer: project, write the cache, then attend through it.
#include "kernels/attention.h"

#include <cmath>

#include "kernels/elementwise.h"
#include "kernels/stream.h"
#include "model/decoder/step.h"

namespace sluice::decoder {

void Decoder::attention(Step& step, int index, const float* x, float* y) {
  Workspace& w = step.w;
  const AttentionWeights& a = weights_.layers[static_cast<std::size_t>(index)].attn;
  const int window = config_.decoder().windows[static_cast<std::size_t>(index)];
  const int rows = step.rows(), hidden = config_.hidden_size, dim = config_.head_dim;
  const int heads = config_.num_attention_heads, key_heads = config_.num_key_value_heads;

  float* q = w.q.get(step.floats(heads * dim));
  float* kv = w.kv.get(step.floats(key_heads * (value_offset(dim) + dim)));
  project(step, index, x, q, kv);
  step.show(index, "q", q, heads * dim);
  step.show(index, "kv", kv, key_heads * (value_offset(dim) + dim));
  write_rows(step, index, kv);

  AttendArgs args;
  args.rows = rows, args.heads = heads, args.dims = dim, args.value_dims = dim;
  args.q = q, args.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(dim)));
  args.step = &step.tables, args.spans = step.tables.spans;
  args.key_heads = key_heads, args.value_offset = value_offset(dim);
  (window > 0 ? args.window : args.latent) =
      &step.cache[streams_[static_cast<std::size_t>(index)].front()];  // one a key head, side by side
  args.window_tokens = window;
  args.out = w.attended.get(step.floats(heads * dim));
  args.bf16 = profile_.bf16_attention();
  attend(step.exec, args);
  step.show(index, "attn_o", args.out, heads * dim);

  const LinearJob out{&a.o.weight, args.out, heads * dim, y, hidden};
  linear(step.exec, rows, {&out, 1});
  if (!a.o.bias.empty()) add_bias(step.exec, {rows, hidden, a.o.bias.data(), y});
}

// Queries and keys normed and rotated as the config asks for; keys and values side by side by head.
void Decoder::project(Step& step, int index, const float* x, float* q, float* kv) {
  Workspace& w = step.w;
  const AttentionWeights& a = weights_.layers[static_cast<std::size_t>(index)].attn;
  const int rows = step.rows(), hidden = config_.hidden_size, dim = config_.head_dim;
  const int heads = config_.num_attention_heads, key_heads = config_.num_key_value_heads;
  const int q_width = heads * dim, k_width = key_heads * dim;
  const auto eps = static_cast<float>(config_.rms_norm_eps);
  float* k = w.k.get(step.floats(k_width));
  float* v = w.v.get(step.floats(k_width));

  const LinearJob jobs[] = {
      {&a.q.weight, x, hidden, q, q_width}, {&a.k.weight, x, hidden, k, k_width}, {&a.v.weight, x, hidden, v, k_width}};
  linear(step.exec, rows, jobs);
  const auto finish = [&](const Param<float>& bias, const Param<float>& norm, int n, float* values) {
    if (!bias.empty()) add_bias(step.exec, {rows, n * dim, bias.data(), values});
    if (!norm.empty()) rms_norm(step.exec, {rows * n, dim, values, dim, norm.data(), eps, values, dim});
  };
  finish(a.q.bias, a.q_norm, heads, q);
  finish(a.k.bias, a.k_norm, key_heads, k);
  finish(a.v.bias, {}, key_heads, v);

  const auto rotate = [&](int n, float* values) {
    RopeHeadsArgs rope;
    rope.rows = rows, rope.heads = n, rope.head_dim = dim, rope.rope_dims = dim;
    rope.x = values, rope.ldx = n * dim;
    rope.positions = step.tables.positions.data(), rope.table = rope_.data();
    rope.half_split = true;
    rope_heads(step.exec, rope);
  };
  rotate(heads, q);
  rotate(key_heads, k);

  const int offset = value_offset(dim), row = offset + dim;
  copy_heads(step.exec, {rows, key_heads, dim, k, dim, k_width, kv, row, key_heads * row, /*zeros=*/offset - dim});
  copy_heads(step.exec, {rows, key_heads, dim, v, dim, k_width, kv + offset, row, key_heads * row});
}

// A row for each token and key-value head. Rows whose latents are published already write their window only.
void Decoder::write_rows(Step& step, int index, const float* kv) {
  const LayerStreams& streams = streams_[static_cast<std::size_t>(index)];
  const int row = value_offset(config_.head_dim) + config_.head_dim, key_heads = config_.num_key_value_heads;
  const bool window = config_.decoder().windows[static_cast<std::size_t>(index)] > 0;
  const RowSlot* slots = window ? step.tables.window_slots : step.tables.closed_by(1).slots;
  for (int head = 0; head < key_heads; ++head) {
    encode_rows(step.exec, {&step.cache[streams[static_cast<std::size_t>(head)]], step.rows(), kv + head * row,
                            std::ptrdiff_t{key_heads} * row, slots});
  }
}

}  // namespace sluice::decoder
