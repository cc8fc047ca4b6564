// The weights of a DeepSeek-V4 checkpoint (docs/models/deepseek_v4.md §13) and the table that binds them.
// Used by model.h.
#pragma once

#include <vector>

#include "kernels/ops/hyper_connection.h"
#include "kernels/ops/linear.h"
#include "model/feed_forward.h"
#include "model/numerics.h"
#include "model/weights/shares.h"
#include "model/weights/weight_table.h"

namespace sluice::v4 {

// A hyper-connection site; `op` is ready once finish() has run (it points into base and scale).
struct HyperConnectionSite {
  HyperConnectionWeights op;
  Param<float> base, scale;
};

struct CompressorWeights {
  LinearWeight kv, gate;   // [c * dim, hidden], c = 2 with overlap
  Param<float> ape, norm;  // [ratio, c * dim], [dim]
};

struct IndexerWeights {
  LinearWeight q;             // [index heads * index dim, q_lora_rank]
  LinearWeight head_weights;  // weights_proj [index heads, hidden]
  CompressorWeights compressor;
};

struct AttentionWeights {
  LinearWeight q_a, q_b, kv, o_b;
  std::vector<LinearWeight> o_a;  // one per output group
  Param<float> q_norm, kv_norm, sink;
  CompressorWeights compressor;  // CSA and HCA layers
  IndexerWeights indexer;        // CSA layers
};

struct LayerWeights {
  HyperConnectionSite hc_attn, hc_ffn;
  Param<float> attn_norm, ffn_norm;
  AttentionWeights attn;
  FeedForwardWeights ffn;
};

// The layer for multi-token prediction, bound if it is wanted (Loading::mtp).
struct MtpWeights {
  LayerWeights block;
  LinearWeight e_proj, h_proj;
  Param<float> enorm, hnorm, norm;
  HyperConnectionSite hc_head;
  LinearWeight head;        // the model's own, rounded where the profile rounds
  HyperConnectionSite key;  // the part of block.hc_attn for the input of a key: the first mixes
};

struct Weights {
  WeightView embedding;  // [vocab, hidden], read by rows
  LinearWeight head;
  Param<float> norm;
  HyperConnectionSite hc_head;
  std::vector<LayerWeights> layers;
  std::vector<MtpWeights> mtp;

  void finish();  // after loading: ties the hyper-connection sites together
};

// The table for `config`, bound to `weights`, whose vectors it sizes. `weights` must not move afterwards.
// In attention it has only the heads of a rank of `group`.
WeightTable weight_table(const ModelConfig& config, const NumericsProfile& profile, Weights& weights,
                         const RankGroup& group = {});
// The weights whose outputs ranks share.
std::vector<SharedWeights> shared_weights(const ModelConfig& config, const RankGroup& group);

}  // namespace sluice::v4
