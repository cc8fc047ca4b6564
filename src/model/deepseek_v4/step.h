// What one forward call of DeepSeek-V4 works with: views of the batch and the cache, and the buffers that outlive the
// call. Internal to this folder.
#pragma once

#include <vector>

#include "base/aligned.h"
#include "kernels/experts.h"
#include "model/deepseek_v4/model.h"
#include "model/model_step.h"

namespace sluice::v4 {

// Buffers that grow to the largest step seen. Every name is a tensor of the specification, [rows, ...].
struct DeepSeekV4::Workspace {
  FloatBuffer streams, wanted;               // X: [rows, 4, hidden]; of the rows that want logits
  FloatBuffer mixes, pre, post, comb;        // of the current hyper-connection site
  FloatBuffer collapsed, normed, sub_layer;  // [rows, hidden]
  FloatBuffer q_a, q, kv, attended, o_a;
  FloatBuffer comp_kv, comp_gate, pooled;  // compressor projections and closed windows
  FloatBuffer index_kv, index_gate, index_q, index_weights, index_scores;
  FloatBuffer router_logits, router_weights;
  std::vector<std::int32_t> router_ids, selected, selected_count;
};

struct DeepSeekV4::Step : ModelStep {
  Workspace& w;
  bool scores_index = false;  // some row sees more entries than index_topk, so the indexer must choose
};

}  // namespace sluice::v4
