// ModelStep: what one forward call works with in every family, to derive from; and what a family does with a batch
// before its first layer and after its last. Values live as long as the call; thread safety: plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/attention.h"
#include "model/batch.h"

namespace sluice {

struct ModelStep {
  const Exec& exec;
  const Batch& batch;
  const CacheView& cache;
  const Probe* probe;  // may be null
  std::span<const CacheSpan> spans;

  int rows() const { return batch.rows(); }
  // Of a buffer [rows(), columns].
  std::size_t floats(std::int64_t columns) const {
    return static_cast<std::size_t>(rows()) * static_cast<std::size_t>(columns);
  }
  // Gives the probe values [rows, columns] of a layer: "layers.3.NAME".
  void show(int layer, const char* name, const float* values, int shown_rows, std::int64_t columns) const;
  void show(int layer, const char* name, const float* values, std::int64_t columns) const {
    show(layer, name, values, rows(), columns);
  }
  void show(int layer, const char* name, const std::vector<std::int32_t>& values, std::int64_t columns) const;
};

// The batch's spans as attention takes them; `into` holds them.
std::span<const CacheSpan> cache_spans(const Batch& batch, std::vector<CacheSpan>& into);

// Behind the last position of the batch.
Position end_position(const Batch& batch);

// Moves the given rows of x [.., columns], ascending ones, to the front, in their order.
void move_to_front(std::span<const int> rows, int columns, float* x);

}  // namespace sluice
