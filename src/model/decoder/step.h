// What one forward call works with: views of the batch and the cache, and the tensors that outlive the call. Internal
// to this folder.
#pragma once

#include "model/decoder/model.h"

namespace sluice::decoder {

// Where the tensors of a step lie.
struct Decoder::Workspace {
  ScratchTensor q, k, v, attended;  // [rows, heads, head_dim]
  ScratchTensor kv;                 // [rows, key-value heads, key then value]
  FeedForwardScratch feed_forward;
};

struct Decoder::Step : ModelStep {
  Workspace& w;
};

}  // namespace sluice::decoder
