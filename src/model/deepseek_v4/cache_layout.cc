// The cache layout of DeepSeek-V4 (docs/models/deepseek_v4.md §4.3, §6.4, §12), and the check that the code supports a
// config.
// Used by model.cc, model/families.cc, plan.cc and step.h.
#include <fmt/format.h>

#include <cstring>

#include "model/deepseek_v4/model.h"

namespace sluice::v4 {
namespace {

PlaneId add_open(CacheLayout& layout, int index, const char* suffix, int dim, bool overlap) {
  PlaneSpec open;
  open.kind = PlaneKind::kOpen;
  open.name = fmt::format("layers.{}.{}", index, suffix);
  open.layer = index;
  std::vector<float> empty(static_cast<std::size_t>(compressor_state_floats(dim, overlap)));
  reset_compressor_state(dim, overlap, empty.data());
  open.initial.resize(empty.size() * sizeof(float));
  std::memcpy(open.initial.data(), empty.data(), open.initial.size());
  // At a block boundary a window without overlap is empty, one with overlap holds the previous four tokens' half.
  open.boundary_bytes = overlap ? 3 * dim * static_cast<int>(sizeof(float)) : 0;
  return layout.add(std::move(open));
}

PlaneId add_rows(CacheLayout& layout, PlaneKind kind, int index, const char* suffix, int tokens, RowFormat format) {
  PlaneSpec rows;
  rows.kind = kind;
  rows.name = fmt::format("layers.{}.{}", index, suffix);
  rows.layer = index;
  (kind == PlaneKind::kLatent ? rows.tokens_per_row : rows.window_tokens) = tokens;
  rows.format = format;
  return layout.add(std::move(rows));
}

// Keys of slot s consume token s and X of the token before it, which of the last row only an open state knows. It is
// bf16, as X is in official inference, or what the profile has for exact rows.
void add_mtp(CacheLayout& layout, const ModelConfig& config, const NumericsProfile& profile, LayerPlanes* planes) {
  const DeepSeekV4Config& v4 = config.v4();
  PlaneSpec keys, residual;
  keys.kind = PlaneKind::kWindow, keys.name = "mtp.0.window";
  keys.window_tokens = v4.sliding_window;
  keys.format = make_row_format(profile.kv, config.head_dim, v4.qk_rope_head_dim);
  residual.kind = PlaneKind::kOpen, residual.name = "mtp.0.residual";
  const RowCodec codec = profile.kv == RowCodec::kF32 ? RowCodec::kF32 : RowCodec::kBf16;
  residual.format = make_row_format(codec, kHcStreams * config.hidden_size, 0);
  residual.boundary_bytes = residual.format.row_bytes();
  residual.initial.resize(static_cast<std::size_t>(residual.boundary_bytes));
  keys.layer = residual.layer = config.num_hidden_layers;
  planes->window = layout.add(std::move(keys));
  planes->open = layout.add(std::move(residual));
}

}  // namespace

CacheLayout make_cache_layout(const ModelConfig& config, const NumericsProfile& profile, bool mtp,
                              std::vector<LayerPlanes>& planes) {
  CacheLayout layout;
  const DeepSeekV4Config& v4 = config.v4();
  const RowFormat kv = make_row_format(profile.kv, config.head_dim, v4.qk_rope_head_dim);
  const RowFormat index_row = make_row_format(profile.index, v4.index_head_dim, 0);
  planes.assign(v4.layers.size() + (mtp ? 1 : 0), {});
  for (std::size_t l = 0; l < v4.layers.size(); ++l) {
    const int index = static_cast<int>(l), ratio = v4.layers[l].compress_ratio;
    planes[l].window = add_rows(layout, PlaneKind::kWindow, index, "window", v4.sliding_window, kv);
    if (ratio == 0) continue;
    const bool overlap = ratio == 4;
    planes[l].latent = add_rows(layout, PlaneKind::kLatent, index, overlap ? "csa" : "hca", ratio, kv);
    planes[l].open = add_open(layout, index, overlap ? "csa_open" : "hca_open", config.head_dim, overlap);
    if (!overlap) continue;
    planes[l].index_latent = add_rows(layout, PlaneKind::kLatent, index, "index", ratio, index_row);
    layout[planes[l].index_latent].read_beyond = layout[planes[l].latent].most_read = v4.index_topk;
    planes[l].index_open = add_open(layout, index, "index_open", v4.index_head_dim, overlap);
  }
  if (mtp) add_mtp(layout, config, profile, &planes.back());
  return layout;
}

// FP8 KV and FP4 index rows where the checkpoint was trained with them.
CacheTypes cache_types(const ModelConfig& config) {
  const bool trained = config.quantization.fp8;
  return {.kv = trained ? RowCodec::kV4Fp8 : RowCodec::kBf16,
          .kv_codecs = {RowCodec::kF32, RowCodec::kBf16, RowCodec::kV4Fp8},
          .kv_trained = RowCodec::kV4Fp8,
          .indexed = true,
          .index = trained ? RowCodec::kIndexFp4 : RowCodec::kBf16,
          .index_trained = RowCodec::kIndexFp4,
          .index_codecs = {RowCodec::kF32, RowCodec::kBf16, RowCodec::kIndexFp8, RowCodec::kIndexFp4},
          .simulated_by_default = trained};
}

Status check_mtp(const ModelConfig& config) {
  const DeepSeekV4Config& v4 = config.v4();
  if (v4.dspark) {
    return invalid_argument(
        "config.json: the checkpoint drafts with DSpark (keys dspark_*): its drafter is not supported "
        "yet; leave speculation with it out");
  }
  if (v4.mtp_layers.empty()) {
    return invalid_argument(
        "config.json: key 'num_nextn_predict_layers': expected a layer for multi-token prediction, "
        "found 0; leave speculation with it out");
  }
  return {};
}

Status check_supported(const ModelConfig& config, const NumericsProfile& profile) {
  const DeepSeekV4Config& v4 = config.v4();
  if (v4.hc_mult != kHcStreams) {
    return invalid_argument(fmt::format("config.json: key 'hc_mult': expected {}, found {}", kHcStreams, v4.hc_mult));
  }
  if (!takes_rows(profile.kv, config.head_dim, v4.qk_rope_head_dim)) {
    return invalid_argument(
        fmt::format("{} KV rows need head_dim - qk_rope_head_dim in multiples of {}, found {} - {}; use "
                    "--kv-cache-dtype bf16",
                    row_codec(profile.kv).type, row_codec(profile.kv).block, config.head_dim, v4.qk_rope_head_dim));
  }
  if (!takes_rows(profile.index, v4.index_head_dim, 0)) {
    return invalid_argument(
        fmt::format("{} index rows need index_head_dim in multiples of {}, found {}; use "
                    "--index-cache-dtype bf16",
                    row_codec(profile.index).type, row_codec(profile.index).block, v4.index_head_dim));
  }
  return {};
}

}  // namespace sluice::v4
