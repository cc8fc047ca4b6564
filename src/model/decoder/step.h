// What one forward call works with: views of the batch and the cache, and the buffers that outlive the call. Internal
// to this folder.
#pragma once

#include <string>
#include <vector>

#include "base/aligned.h"
#include "kernels/attention.h"
#include "kernels/experts.h"
#include "model/decoder/model.h"

namespace sluice::decoder {

// Buffers that grow to the largest step seen.
struct Decoder::Workspace {
  FloatBuffer x, normed, sub_layer;  // [rows, hidden]
  FloatBuffer q, k, v, attended;     // [rows, heads, head_dim]
  FloatBuffer kv;                    // [rows, key-value heads, key then value]
  FloatBuffer router_logits, router_weights;
  std::vector<std::int32_t> router_ids;
  std::vector<RowRef> rows;
  std::vector<CacheSpan> cache_spans;
  std::vector<StreamView> views;  // of a layer's key-value heads
  ExpertsScratch experts;
};

struct Decoder::Step {
  const Exec& exec;
  const Batch& batch;
  const CacheView& cache;
  const Probe* probe;
  Workspace& w;
  std::span<const CacheSpan> spans;

  int rows() const { return batch.rows(); }
  std::size_t floats(std::int64_t columns) const {
    return static_cast<std::size_t>(rows()) * static_cast<std::size_t>(columns);
  }

  void show(int layer, const char* name, const float* values, std::int64_t columns) const {
    if (probe == nullptr) return;
    (*probe)("layers." + std::to_string(layer) + "." + name, values, rows(), static_cast<int>(columns));
  }
};

}  // namespace sluice::decoder
