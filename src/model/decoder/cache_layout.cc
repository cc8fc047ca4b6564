// The cache layout of a plain multi-head model: for each layer and key-value head a row a token, its key and then its
// value.
// Used by model and model/decoder.
#include <fmt/format.h>

#include "model/decoder/model.h"

namespace sluice::decoder {

CacheLayout make_cache_layout(const ModelConfig& config, const NumericsProfile& profile, const RankGroup& group,
                              std::vector<LayerPlanes>& planes) {
  CacheLayout layout;
  layout.differs_by_rank = shares_heads(config, group);
  const std::vector<int>& windows = config.decoder().windows;
  const RowFormat format = make_row_format(profile.kv, value_offset(config.head_dim) + config.head_dim, 0);
  planes.assign(windows.size(), {});
  for (std::size_t l = 0; l < windows.size(); ++l) {
    for (int head = 0; head < own_key_heads(config, group); ++head) {
      PlaneSpec rows;
      rows.kind = windows[l] > 0 ? PlaneKind::kWindow : PlaneKind::kLatent;
      rows.name = fmt::format("layers.{}.kv.{}", l, head);
      rows.layer = static_cast<int>(l);
      rows.window_tokens = windows[l];
      rows.format = format;
      planes[l].push_back(layout.add(std::move(rows)));
    }
  }
  return layout;
}

// bf16, as these models are served everywhere; there is no FP8 row for plain keys and values.
CacheTypes cache_types(const ModelConfig&) {
  return {};
}

}  // namespace sluice::decoder
