// The data of one forward call of DeepSeek-V4: views of the batch and the cache, and the buffers that outlive the call.
// Internal to this folder.
// Used by attention.cc, model.cc and mtp.cc.
#pragma once

#include "base/aligned.h"
#include "model/deepseek_v4/model.h"

namespace sluice::v4 {

// The tensors of a step, [rows, ...], with the names of docs/models/deepseek_v4.md.
struct CompressorScratch {
  ScratchTensor kv, gate, pooled;  // projections and closed windows
};
struct DeepSeekV4::Workspace {
  ScratchTensor streams, wanted;         // X: [rows, 4, hidden]; the part for rows that want logits, or the row before
  ScratchTensor mtp_inputs;              // streams normed one by one: [4 rows, hidden]
  ScratchTensor mixes, pre, post, comb;  // for the current hyper-connection site
  ScratchTensor collapsed, normed, sub_layer;  // [rows, hidden]
  ScratchTensor q_a, q, kv, attended, o_a;
  CompressorScratch compressor, index_compressor;
  ScratchTensor index_q, index_weights, selected, selected_count;
  FeedForwardScratch feed_forward;
};

struct DeepSeekV4::Step : ModelStep {
  Workspace& w;
  bool scores_index = false;  // some row sees more entries than index_topk, so the indexer must choose
};

}  // namespace sluice::v4
