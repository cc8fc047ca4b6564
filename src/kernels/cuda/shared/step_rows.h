// Rows of a step, found in its tables.
// Used by kernels/cuda/shared and kernels/cuda/sm90.
#pragma once

#include "kernels/cuda/launch.h"
#include "kernels/step/step_tables.h"

namespace sluice::SLUICE_CUDA_OPS {

// Returns the span that a row belongs to, of `count` spans in row order.
SLUICE_DEVICE int span_index_of_row(const RowSpan* spans, int count, int row) {
  int low = 0, high = count;  // the last span that does not begin after the row
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (spans[middle].row_begin <= row ? low : high) = middle;
  }
  return low;
}
SLUICE_DEVICE RowSpan span_of_row(const RowSpan* spans, int count, int row) {
  return spans[span_index_of_row(spans, count, row)];
}

}  // namespace sluice::SLUICE_CUDA_OPS
