// The cache layout of a model with multi-head latent attention, with its types (docs/models/deepseek_v3.md §1,
// docs/models/deepseek_v3.2.md §3).
// Used by model.cc, model/families.cc, plan.cc and step.h.
#include <fmt/format.h>

#include <climits>

#include "model/deepseek_mla/model.h"

namespace sluice::mla {
namespace {

PlaneId add_rows(CacheLayout& layout, int index, std::string name, RowFormat format) {
  PlaneSpec rows;
  rows.kind = PlaneKind::kLatent;
  rows.name = std::move(name);
  rows.layer = index;
  rows.format = format;
  return layout.add(std::move(rows));
}

// Adds the hidden state of the row before the next one, which the layer for multi-token prediction needs. It is in
// bf16, as in official inference, or in f32 if the profile's rows are exact. Pages keep it for the last row of each
// block.
PlaneId add_hidden(CacheLayout& layout, const ModelConfig& config, const NumericsProfile& profile) {
  const RowCodec codec = profile.kv == RowCodec::kF32 ? RowCodec::kF32 : RowCodec::kBf16;
  const RowFormat format = make_row_format(codec, config.hidden_size, 0);
  const PlaneId kept = add_rows(layout, config.num_hidden_layers, "mtp.0.boundary", format);
  layout[kept].tokens_per_row = kBlockTokens;
  layout[kept].read_beyond = INT_MAX;  // no row reads it; only resuming needs it
  PlaneSpec hidden;
  hidden.kind = PlaneKind::kOpen, hidden.name = "mtp.0.hidden";
  hidden.layer = config.num_hidden_layers;
  hidden.format = format;
  hidden.initial.resize(static_cast<std::size_t>(format.row_bytes()));
  hidden.kept_in = kept;
  return layout.add(std::move(hidden));
}

}  // namespace

CacheLayout make_cache_layout(const ModelConfig& config, const NumericsProfile& profile, bool mtp,
                              std::vector<LayerPlanes>& planes) {
  CacheLayout layout;
  const DeepSeekMlaConfig& mla = config.mla();
  planes.assign(mla.sparse_layers.size() + (mtp ? 1 : 0), {});
  for (std::size_t l = 0; l < planes.size(); ++l) {
    const int index = static_cast<int>(l);
    const std::string name = index < config.num_hidden_layers ? fmt::format("layers.{}.", index) : "mtp.0.";
    const RowFormat latent = make_row_format(profile.kv, mla.latent_dim(), mla.qk_rope_head_dim);
    planes[l].latent = add_rows(layout, index, name + "latent", latent);
    if (mla.index_n_heads == 0) continue;
    planes[l].index = add_rows(layout, index, name + "index", make_row_format(profile.index, mla.index_head_dim, 0));
    layout[planes[l].index].read_beyond = layout[planes[l].latent].most_read = mla.index_topk;
  }
  if (mtp) planes.back().hidden = add_hidden(layout, config, profile);
  return layout;
}

// The types in which official inference caches: bf16 latents, but with an indexer (V3.2) FP8 latents and FP8 index
// keys. The model was trained with these, whatever its weights are.
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

Status check_mtp(const ModelConfig& config) {
  if (config.mla().predict_layers > 0) return {};
  return invalid_argument(
      "config.json: key 'num_nextn_predict_layers': expected a layer for multi-token prediction, found 0; leave "
      "speculation with it out");
}

std::string mtp_prefix(const ModelConfig& config) {
  return fmt::format("model.layers.{}.", config.num_hidden_layers);
}

}  // namespace sluice::mla
