// What one forward call of DeepSeek-V4 works with: views of the batch and the cache, and the buffers that outlive the
// call. Internal to this folder.
#pragma once

#include <vector>

#include "base/aligned.h"
#include "kernels/experts.h"
#include "kernels/scratch.h"
#include "model/deepseek_v4/model.h"
#include "model/model_step.h"

namespace sluice::v4 {

// Where the tensors of a step lie. Every name is one of the specification, [rows, ...].
struct DeepSeekV4::Workspace {
  Device* device = nullptr;
  int rows = 0;                                // of a step at most
  ScratchTensor streams, wanted;               // X: [rows, 4, hidden]; of the rows that want logits
  ScratchTensor mixes, pre, post, comb;        // of the current hyper-connection site
  ScratchTensor collapsed, normed, sub_layer;  // [rows, hidden]
  ScratchTensor q_a, q, kv, attended, o_a;
  ScratchTensor comp_kv, comp_gate, pooled;  // compressor projections and closed windows
  ScratchTensor index_kv, index_gate, index_pooled, index_q, index_weights;
  FloatBuffer index_scores;  // for probes
  ScratchTensor router_logits, router_weights;
  ScratchTensor router_ids, selected, selected_count;
  Scratch scratch;
};

struct DeepSeekV4::Step : ModelStep {
  Workspace& w;
  bool scores_index = false;  // some row sees more entries than index_topk, so the indexer must choose
};

}  // namespace sluice::v4
