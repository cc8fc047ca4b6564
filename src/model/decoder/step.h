// What one forward call works with: views of the batch and the cache, and the buffers that outlive the call. Internal
// to this folder.
#pragma once

#include <vector>

#include "base/aligned.h"
#include "model/decoder/model.h"

namespace sluice::decoder {

// Buffers that grow to the largest step seen.
struct Decoder::Workspace {
  FloatBuffer q, k, v, attended;  // [rows, heads, head_dim]
  FloatBuffer kv;                 // [rows, key-value heads, key then value]
  std::vector<StreamView> views;  // of a layer's key-value heads
  FeedForwardScratch feed_forward;
};

struct Decoder::Step : ModelStep {
  Workspace& w;
};

}  // namespace sluice::decoder
