// The weights of a plain multi-head checkpoint (Llama, Qwen2, Qwen3, Qwen3-MoE) and the table that binds them.
// Used by model.h.
#pragma once

#include <vector>

#include "kernels/ops/linear.h"
#include "model/feed_forward.h"
#include "model/numerics.h"
#include "model/weights/shares.h"
#include "model/weights/weight_table.h"

namespace sluice::decoder {

// A linear with its bias; an empty bias means none.
struct BiasedLinear {
  LinearWeight weight;
  Param<float> bias;
};

struct AttentionWeights {
  BiasedLinear q, k, v, o;      // q: [heads * head_dim, hidden]; k, v: [key-value heads * head_dim, hidden]
  Param<float> q_norm, k_norm;  // [head_dim], with qk_norm
};

inline InputForms inputs_of(const AttentionWeights& a) {
  return InputForms().add(a.q.weight).add(a.k.weight).add(a.v.weight);
}

struct LayerWeights {
  Param<float> attn_norm, ffn_norm;
  AttentionWeights attn;
  FeedForwardWeights ffn;
};

struct Weights {
  WeightView embedding;  // [vocab, hidden], read by rows
  LinearWeight head;
  Param<float> norm;
  std::vector<LayerWeights> layers;
};

// The table for `config`, bound to `weights`, whose vectors it sizes. `weights` must not move afterwards.
WeightTable weight_table(const ModelConfig& config, const NumericsProfile& profile, Weights& weights);

// The weights whose outputs ranks share.
std::vector<SharedWeights> shared_weights(const ModelConfig& config, const RankGroup& group);

}  // namespace sluice::decoder
