// Attention of one layer: project, write the cache, then attend through it.
// Used by model.cc.
#include <cmath>

#include "model/decoder/step.h"

namespace sluice::decoder {
namespace {

Product biased(const BiasedLinear& linear, const Rows& y) {
  return {.weights = {&linear.weight, 1}, .y = y, .bias = linear.bias.empty() ? nullptr : linear.bias.data()};
}
const float* optional(const Param<float>& values) {
  return values.empty() ? nullptr : values.data();
}

}  // namespace

void Decoder::attention(Step& step, int index, const Rows& x, const Rows& y) {
  Workspace& w = step.w;
  const AttentionWeights& a = weights_.layers[static_cast<std::size_t>(index)].attn;
  const int window = config_.decoder().windows[static_cast<std::size_t>(index)];
  const int rows = step.rows(), dim = config_.head_dim, key_heads = own_key_heads(config_, group_);
  const auto eps = static_cast<float>(config_.rms_norm_eps);
  const Rotation rope{ropes_[0].data(), dim, 0, /*half_split=*/true};
  // One a key head, side by side.
  const PlaneView* planes = &step.cache[planes_[static_cast<std::size_t>(index)].front()];
  const Rows q = w.q.rows(rows), k = w.k.rows(rows), v = w.v.rows(rows), kv = w.kv.rows(rows);
  const InputForms o_forms = InputForms().add(a.o.weight);
  const Rows whole = w.attended.rows(rows, o_forms), attended = step.own_part(whole, &OwnColumns::heads, o_forms);

  project(step.exec, ProjectArgs{.rows = rows, .x = x}.add(biased(a.q, q)).add(biased(a.k, k)).add(biased(a.v, v)));
  const int ratio = window > 0 ? 0 : 1;
  store_kv(step.exec, StoreKvArgs{.step = &step.tables}
                          .add({.planes = planes,
                                .ratio = ratio,
                                .heads = key_heads,
                                .dims = dim,
                                .x = k.values,
                                .norm = {optional(a.k_norm), nullptr, eps, dim},
                                .rope = rope,
                                .values = v.values,
                                .value_dims = dim,
                                .value_offset = value_offset(dim),
                                .joined = kv.values,
                                .codes_only = step.observer == nullptr})
                          .add({.ratio = ratio,
                                .heads = heads_,
                                .dims = dim,
                                .x = q.values,
                                .norm = {optional(a.q_norm), nullptr, eps, dim},
                                .rope = rope}));
  step.show(index, "kv", kv);

  AttendArgs args;
  args.rows = rows, args.heads = heads_, args.dims = dim, args.value_dims = dim;
  args.q = q.values, args.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(dim)));
  args.step = &step.tables, args.spans = step.tables.spans;
  args.key_heads = key_heads, args.value_offset = value_offset(dim);
  (window > 0 ? args.window : args.latent) = planes;
  args.window_tokens = window;
  args.out = attended.values, args.out_rows = attended,
  args.forms_only = step.needs_form_only(attended, whole, a.o.weight);
  args.bf16 = profile_.bf16_attention();
  args.tiles = profile_.tiles_attention();
  attend(step.exec, args);
  step.show(index, "q", q);
  step.gather(attended, whole, &a.o.weight);
  step.show(index, "attn_o", whole);
  const Rows own_y = step.own_part(y, &OwnColumns::y);
  project(step.exec, ProjectArgs{.rows = rows, .x = whole}.add(biased(a.o, own_y)));
  step.gather(own_y, y);
}

}  // namespace sluice::decoder
