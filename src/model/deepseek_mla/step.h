// What one forward call works with: views of the batch and the cache, and the buffers that outlive the call. Internal
// to this folder.
#pragma once

#include "base/aligned.h"
#include "model/deepseek_mla/model.h"

namespace sluice::mla {

// Where the tensors of a step lie. Names are those of docs/models/deepseek_v3.md; [rows, ...].
struct DeepSeekMla::Workspace {
  ScratchTensor q_a, q, latent;           // latent: (c | k_pe)
  ScratchTensor absorbed;                 // [rows, heads, kv_lora_rank + rope]
  ScratchTensor attended, values;         // [rows, heads, kv_lora_rank], [rows, heads, v_head_dim]
  ScratchTensor piece_latents, expanded;  // of expand_and_attend()
  ScratchTensor piece, piece_lse, lse;
  ScratchTensor index_k, index_q, index_weights, selected, selected_count;
  ScratchTensor hidden, token, token_and_hidden;  // of the layer for multi-token prediction, which enters with the last
  FeedForwardScratch feed_forward;
};

struct DeepSeekMla::Step : ModelStep {
  Workspace& w;
  bool selects = false;  // some row sees more keys than index_topk, so the indexer must choose
};

}  // namespace sluice::mla
