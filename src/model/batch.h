// Batch and CacheView: what a step computes and the memory it computes in. Views only; they own nothing.
//
// A step is a flat list of token rows grouped in spans; there is no prefill and no decode. Every layer, for all rows:
// project, write the cache, then attend through the cache.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "base/index_types.h"
#include "kernels/stream.h"

namespace sluice {

// Consecutive rows of one sequence, and where its cached state lies.
struct BatchSpan {
  int row_begin = 0, rows = 0;
  Position first_position = 0;
  // Rows below this position are computed only for their window and open state: their latents are already published.
  Position latents_from = 0;
  const LatentPage* latent_pages = nullptr;  // [block], covers every block up to the span's last row
  // [block - first_window_block], covers the window of the first row to the last row. A row that ends its block also
  // writes the boundary bytes of every Open stream there (model/cache_layout.h).
  const WindowPage* window_pages = nullptr;
  std::int32_t first_window_block = 0;
  const std::byte* open_in = nullptr;  // the committed open state before first_position (CacheLayout::open_bytes())
  std::byte* open_out = nullptr;       // receives the state after the last row; not the same memory
};

struct Batch {
  std::span<const TokenId> ids;         // [rows]; tokens only, never placeholders
  std::span<const Position> positions;  // [rows]
  std::span<const BatchSpan> spans;     // in row order, covering every row
  std::span<const int> logit_rows;      // ascending rows whose logits are wanted
  int rows() const { return static_cast<int>(ids.size()); }
};

// The pools' memory, per stream (StreamSpec::view()). Addresses of a device (kernels/device.h): for ops, and for nobody
// else.
struct CacheView {
  std::vector<StreamView> streams;        // by StreamId
  std::vector<std::size_t> open_offsets;  // by StreamId, in an open state
  std::byte* open_base = nullptr;         // open state i lies at open_base + i * open_stride
  std::size_t open_stride = 0;            // CacheLayout::open_bytes()
  const StreamView& operator[](StreamId id) const { return streams[static_cast<std::size_t>(id.value)]; }
  std::size_t open_offset(StreamId id) const { return open_offsets[static_cast<std::size_t>(id.value)]; }
  // Where a window page keeps the boundary bytes of an Open stream: the first bytes of its state after the block.
  std::byte* boundary(StreamId open, WindowPage page) const { return (*this)[open].row(page.value, 0).data; }
};

// Sees intermediate values by name ("layers.3.attn.q"), to compare them with references or between runs. [rows,
// columns].
using Probe = std::function<void(std::string_view name, const float* values, int rows, int columns)>;

}  // namespace sluice
