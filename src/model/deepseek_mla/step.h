// What one forward call works with: views of the batch and the cache, and the buffers that outlive the call. Internal
// to this folder.
#pragma once

#include <vector>

#include "base/aligned.h"
#include "model/deepseek_mla/model.h"

namespace sluice::mla {

// Buffers that grow to the largest step seen. Every name is a tensor of the specification, [rows, ...].
struct DeepSeekMla::Workspace {
  FloatBuffer x, normed, sub_layer;     // [rows, hidden]
  FloatBuffer q_a, q, latent;           // latent: (c | k_pe)
  FloatBuffer absorbed;                 // [rows, heads, kv_lora_rank + rope]
  FloatBuffer attended, values;         // [rows, heads, kv_lora_rank], [rows, heads, v_head_dim]
  FloatBuffer piece_latents, expanded;  // [keys, latent], [heads, keys, expanded_row_floats] of a group of heads
  FloatBuffer piece, piece_lse, lse;    // [rows, heads, v_head_dim], [rows, heads], [rows, heads]
  FloatBuffer index_k, index_q, index_weights, index_scores;
  std::vector<std::int32_t> selected, selected_count;
  std::vector<LinearJob> jobs;
  FeedForwardScratch feed_forward;
};

struct DeepSeekMla::Step : ModelStep {
  Workspace& w;
  bool selects = false;  // some row sees more keys than index_topk, so the indexer must choose
};

}  // namespace sluice::mla
