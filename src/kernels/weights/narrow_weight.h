// A weight of floats as FP8 (e4m3) under scales of e8m0 for blocks of kNarrowBlock x kNarrowBlock: half the bytes, for
// results that may be guessed (docs/speculation.md). Thread safety: functions of their arguments.
// Used by model/weights/weight_table.cc.
#pragma once

#include <cstddef>

#include "base/threads/thread_pool.h"
#include "kernels/weights/weight_format.h"

namespace sluice {

inline constexpr int kNarrowBlock = 128;
WeightView narrow_shape(const WeightView& view);
std::size_t narrow_scales(const WeightView& narrow);  // the number of scales, a byte each
// Writes the scales. A block with a value that is not finite has a scale of NaN.
void write_narrow_scales(ThreadPool* pool, const WeightView& view, std::byte* to);
// Writes the values under these scales, rounded to nearest, ties to even.
void write_narrow(ThreadPool* pool, const WeightView& view, const std::byte* scales, std::byte* to);

}  // namespace sluice
