// PageGeometry: the number of pages of each pool that a sequence needs, as a function of positions alone. The scheduler
// plans with the functions by which the cache allocates.
//
// At position p, in block n = p / 128, a sequence holds the window pages of blocks n - R and later. The rows from p on
// see some of these, and resuming at its last block boundary, 128 n, needs some: R = window_pages_to_resume() covers
// both. So a sequence can always go back to its last boundary. While rows [p, p + rows) are computed it also holds the
// window pages of every block up to the last row. It holds one latent page for every block up to the last row.
// Used by many folders, among them cache, cli and engine.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/index_types.h"
#include "model/cache_layout.h"

namespace sluice {

inline int blocks_for(std::int64_t tokens) {
  return static_cast<int>((tokens + kBlockTokens - 1) / kBlockTokens);
}

struct PageGeometry {
  int resume_pages = 0;     // R: window pages that resuming at a block boundary needs
  bool has_latents = true;  // the layout puts bytes in the latent pool
  bool has_windows = true;  // ... in the window pool: rows of Window planes, or boundary bytes

  static PageGeometry of(const CacheLayout& layout) {
    return {.resume_pages = layout.window_pages_to_resume(),
            .has_latents = layout.latent_page_bytes() > 0,
            .has_windows = layout.window_page_bytes() > 0};
  }

  std::int32_t first_window_block(Position next) const { return std::max(0, next / kBlockTokens - resume_pages); }
  int latent_pages(Position end) const { return has_latents ? blocks_for(end) : 0; }
  // Window pages while rows [first, first + rows) are computed; rows >= 1.
  int window_pages(Position first, int rows) const {
    return has_windows ? (first + rows - 1) / kBlockTokens - first_window_block(first) + 1 : 0;
  }
  // The most window pages that one row at a time, or the time between steps, ever needs.
  int steady_window_pages() const { return has_windows ? resume_pages + 1 : 0; }
  // The most window pages that a span of `rows` rows needs beyond those.
  int extra_window_pages(int rows) const { return has_windows ? blocks_for(rows - 1) : 0; }
  // The number of rows from `first` that fit in `pages` window pages; 0 if not even one does.
  int rows_within(Position first, int pages) const;
};

inline int PageGeometry::rows_within(Position first, int pages) const {
  if (!has_windows) return INT32_MAX;
  const std::int64_t end = (std::int64_t{first_window_block(first)} + pages) * kBlockTokens;
  return static_cast<int>(std::clamp<std::int64_t>(end - first, 0, INT32_MAX));
}

}  // namespace sluice
