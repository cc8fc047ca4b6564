// CacheLayout: what a model family keeps per sequence, as a list of streams. From this table alone follow page bytes,
// addresses, the memory plan, prefix hits and audits; the cache knows no family and the model knows no pool.
//
// A stream is written by one layer and may be read by any.
//   Latent  grows with the context: one row per `tokens_per_row` tokens, in pages of the latent pool (128 tokens a
//   page) Window  the rows a resumed sequence needs from just before its position: one per token, in pages of the
//   window pool Open    state carried from step to step that is not rows (an unfinished compressor window). At a block
//   boundary only its
//           first `boundary_bytes` differ from `initial`, and a window page stores them.
// Thread safety: plain values.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/index_types.h"
#include "kernels/stream.h"

namespace sluice {

enum class StreamKind { kLatent, kWindow, kOpen };
const char* name(StreamKind kind);

struct StreamSpec {
  StreamKind kind = StreamKind::kLatent;
  std::string name;  // "layers.2.csa"
  int layer = 0;
  int tokens_per_row = 1;          // Latent; divides kBlockTokens
  int window_tokens = 0;           // Window: keys a row looks back, itself included
  RowFormat format;                // Latent, Window
  std::vector<std::byte> initial;  // Open: the state before the first token
  int boundary_bytes = 0;          // Open

  int rows_per_page() const { return kind == StreamKind::kLatent ? kBlockTokens / tokens_per_row : kBlockTokens; }
  std::size_t page_bytes() const;  // of this stream's part of a page; Open: boundary_bytes
};

struct CacheLayout {
  std::vector<StreamSpec> streams;  // index: StreamId

  StreamId add(StreamSpec spec);
  const StreamSpec& operator[](StreamId id) const { return streams[static_cast<std::size_t>(id.value)]; }

  std::size_t latent_page_bytes() const;       // of one 128-token block
  std::size_t window_page_bytes() const;       // of one 128-token block, boundary bytes included
  std::size_t open_bytes() const;              // of one sequence, one copy
  std::size_t open_offset(StreamId id) const;  // in those bytes; 64-byte aligned
  int window_tokens() const;                   // the widest window; 0: none
  // Window pages that a sequence at a block boundary must hold: ceil((window - 1) / 128).
  int window_pages_to_resume() const;
  double latent_bytes_per_token() const { return static_cast<double>(latent_page_bytes()) / kBlockTokens; }
};

}  // namespace sluice
