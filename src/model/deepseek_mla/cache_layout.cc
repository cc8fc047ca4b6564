// What a model with multi-head latent attention caches per layer, and in what types (docs/models/deepseek_v3.md §1,
// docs/models/deepseek_v3.2.md §3).
#include <fmt/format.h>

#include "model/deepseek_mla/model.h"

namespace sluice::mla {
namespace {

PlaneId add_rows(CacheLayout& layout, int index, const char* suffix, RowFormat format) {
  PlaneSpec rows;
  rows.kind = PlaneKind::kLatent;
  rows.name = fmt::format("layers.{}.{}", index, suffix);
  rows.layer = index;
  rows.format = format;
  return layout.add(std::move(rows));
}

}  // namespace

CacheLayout make_cache_layout(const ModelConfig& config, const NumericsProfile& profile,
                              std::vector<LayerPlanes>& planes) {
  CacheLayout layout;
  const DeepSeekMlaConfig& mla = config.mla();
  planes.assign(mla.sparse_layers.size(), {});
  for (std::size_t l = 0; l < planes.size(); ++l) {
    const int index = static_cast<int>(l);
    const RowFormat latent = make_row_format(profile.kv, mla.latent_dim(), mla.qk_rope_head_dim);
    planes[l].latent = add_rows(layout, index, "latent", latent);
    if (mla.index_n_heads == 0) continue;
    planes[l].index = add_rows(layout, index, "index", make_row_format(profile.index, mla.index_head_dim, 0));
    layout[planes[l].index].read_beyond = layout[planes[l].latent].most_read = mla.index_topk;
  }
  return layout;
}

// As official inference caches: bf16 latents, but with an indexer (V3.2) FP8 latents and FP8 index keys, which the
// model was trained with, whatever its weights are.
CacheTypes cache_types(const ModelConfig& config) {
  CacheTypes types{.kv = RowCodec::kBf16};
  types.kv_codecs.push_back(RowCodec::kMlaFp8);
  types.why_not_expanded = nullptr;
  if (config.mla().index_n_heads == 0) return types;
  types.why_not_expanded = "the model's indexer chooses other keys for every row, so rows cannot share expanded ones";
  types.kv = types.kv_trained = RowCodec::kMlaFp8;
  types.indexed = true;
  types.index = types.index_trained = RowCodec::kIndexFp8;
  types.simulated_by_default = true;
  return types;
}

}  // namespace sluice::mla
