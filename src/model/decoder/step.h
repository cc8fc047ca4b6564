// The data of one forward call: views of the batch and the cache, and the tensors that outlive the call. Internal to
// this folder.
// Used by attention.cc and model.cc.
#pragma once

#include "model/decoder/model.h"

namespace sluice::decoder {

// The tensors of a step.
struct Decoder::Workspace {
  ScratchTensor q, k, v, attended;  // [rows, heads, head_dim]
  ScratchTensor kv;                 // [rows, key-value heads, key then value]
  FeedForwardScratch feed_forward;
};

struct Decoder::Step : ModelStep {
  Workspace& w;
};

}  // namespace sluice::decoder
