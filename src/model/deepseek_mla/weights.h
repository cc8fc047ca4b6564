// The weights of a checkpoint with multi-head latent attention (docs/models/deepseek_v3.md §3,
// docs/models/deepseek_v3.2.md §1) and the table that binds them.
// Used by model.h.
#pragma once

#include <vector>

#include "kernels/ops/linear.h"
#include "model/feed_forward.h"
#include "model/weights/shares.h"
#include "model/weights/weight_table.h"

namespace sluice::mla {

struct IndexerWeights {
  LinearWeight q, k, head_weights;  // [index heads * dim, q_lora_rank], [dim, hidden], [index heads, hidden]
  Param<float> k_norm, k_norm_bias;
};

struct AttentionWeights {
  LinearWeight q_a, q_b;           // without q_lora_rank q_b is q_proj, and q_a and q_norm are empty
  LinearWeight kv_a, o;            // kv_a: [kv_lora_rank + rope, hidden]
  std::vector<LinearWeight> k_up;  // by head, W_UK transposed: [kv_lora_rank, nope]; maps a query to the latent's side
  std::vector<LinearWeight> v_up;  // by head, W_UV: [v_head_dim, kv_lora_rank]
  std::vector<LinearWeight> k_expand;  // by head, W_UK: [nope, kv_lora_rank]; empty if no span is expanded
  Param<float> q_norm, kv_norm;
  Param<float> q_a_bias, kv_a_bias, o_bias;  // set with attention_bias
  IndexerWeights indexer;                    // set with index_n_heads
};

inline InputForms inputs_of(const AttentionWeights& a) {
  return InputForms().add(a.q_a.out() > 0 ? a.q_a : a.q_b).add(a.kv_a).add(a.indexer.k);
}

struct LayerWeights {
  Param<float> attn_norm, ffn_norm;
  AttentionWeights attn;
  FeedForwardWeights ffn;
};

// The layer for multi-token prediction (docs/models/deepseek_v3.md §4). Bound if speculation uses it. Its embedding and
// head are copies of the main ones in every official checkpoint: these are used.
struct MtpWeights {
  LayerWeights block;
  WeightView embedding, own_head;  // never bound
  LinearWeight head;               // the model's own, rounded where the profile rounds
  LinearWeight eh_proj;            // [hidden, 2 * hidden]
  Param<float> enorm, hnorm, norm;
};

struct Weights {
  WeightView embedding;  // [vocab, hidden], read by rows
  LinearWeight head;
  Param<float> norm;
  std::vector<LayerWeights> layers;
  std::vector<MtpWeights> mtp;
};

// The table for `config`, bound to `weights`, whose vectors it sizes. `weights` must not move afterwards.
// In attention it has only the heads of a rank of `group`.
WeightTable weight_table(const ModelConfig& config, const NumericsProfile& profile, Weights& weights,
                         const RankGroup& group = {});
// The weights whose outputs ranks share.
std::vector<SharedWeights> shared_weights(const ModelConfig& config, const RankGroup& group);

}  // namespace sluice::mla
