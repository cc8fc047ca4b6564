// The scale tensors of weights that are quantised in blocks (WeightFormat): their shapes, and their values if files
// hold them as half floats. Thread safety: pure functions.
// Used by weight_table.cc.
#pragma once

#include <cstdint>
#include <vector>

#include "base/aligned.h"
#include "files/tensor_view.h"
#include "kernels/weights/weight_format.h"
#include "sluice/status.h"

namespace sluice {

// Fails unless `scales` has the shape `expected`, one scale for each block of `view`, of the tensor `weight`. The
// message names FP8 with one scale for a tensor or a row.
Status check_scale_shape(const TensorView& weight, const WeightView& view, const TensorView& scales,
                         const std::vector<std::int64_t>& expected);

// Returns whether they are BF16 or F16. widened_scales() converts these to f32 exactly.
bool are_half_scales(const TensorView& scales);
AlignedBytes widened_scales(const TensorView& scales);

}  // namespace sluice
