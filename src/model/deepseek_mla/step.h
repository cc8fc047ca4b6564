// The data of one forward call: views of the batch and the cache, and the buffers that outlive the call. Internal to
// this folder.
// Used by attention.cc, model.cc and mtp.cc.
#pragma once

#include "base/aligned.h"
#include "model/deepseek_mla/model.h"

namespace sluice::mla {

// The tensors of a step, [rows, ...], with the names of docs/models/deepseek_v3.md.
struct DeepSeekMla::Workspace {
  ScratchTensor q_a, q, latent;           // latent: (c | k_pe)
  ScratchTensor absorbed;                 // [rows, heads, kv_lora_rank + rope]
  ScratchTensor attended, values;         // [rows, heads, kv_lora_rank], [rows, heads, v_head_dim]
  ScratchTensor piece_latents, expanded;  // for expand_and_attend()
  ScratchTensor piece, piece_lse, lse;
  ScratchTensor index_k, index_q, index_weights, selected, selected_count;
  ScratchTensor hidden, token, token_and_hidden;  // for multi-token prediction; its layer reads token_and_hidden
  FeedForwardScratch feed_forward;
};

struct DeepSeekMla::Step : ModelStep {
  Workspace& w;
  bool selects = false;  // some row sees more keys than index_topk, so the indexer must choose
};

}  // namespace sluice::mla
