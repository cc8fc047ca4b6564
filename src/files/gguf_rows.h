// TensorRows of the layouts that differ from the official one (GgufLayout).
// The source tensors must outlive these. Thread safety: const after construction.
#pragma once

#include <memory>

#include "files/tensor_view.h"

namespace sluice {

// The official order of a tensor of `heads` heads whose rows are interleaved: row i of a head's first half is its
// stored row 2i, row i of its second half its stored row 2i + 1. A tensor of one dimension has rows of one element
// (a bias). `source.shape[0]` is a multiple of 2 * heads.
std::unique_ptr<TensorRows> make_interleaved_rows(const TensorView& source, std::int64_t heads);

// [heads * (nope + v), rank] from keys [heads, rank, nope] and values [heads, v, rank].
std::unique_ptr<TensorRows> make_split_kv_rows(const TensorView& keys, const TensorView& values);

}  // namespace sluice
