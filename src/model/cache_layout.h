// CacheLayout: the data that a model family keeps per sequence, as a list of planes. Page bytes, addresses, the memory
// plan, prefix hits and audits follow from this table alone; the cache knows no family and the model knows no pool.
//
// A plane is written by one layer and may be read by any.
//   Latent  grows with the context: one row per `tokens_per_row` tokens, in latent pages
//   Window  the rows that a resumed sequence needs from just before its position: one per token, in window pages
//   Open    state carried from step to step that is not rows (an unfinished compressor window)
// A page holds the rows of a block, 128 tokens. A plane's part of it is a multiple of 16 bytes long on every device,
// because devices copy in bulk only between such addresses (a page of an HCA plane, one row of 584 bytes, has 592). The
// padding is zero and never written, and copies and swapped states carry it along.
//
// Boundaries. After the last token of a block, only the first `boundary_bytes` of an Open plane's state differ from
// `initial`. The pass that computes that token writes them to the block's window page as well, so a sequence can resume
// after block b from pages alone. It needs the latent pages of blocks 0..b and the last window_pages_to_resume() window
// pages. Its open state is `initial`, with the boundary bytes of block b in front of each plane's part. It is the
// same, byte for byte, whichever calls computed the tokens. A layout without windows keeps such a state in the latent
// page instead (`kept_in`), so that every block that is cached stays a place to resume. Thread safety: plain values.
// Used by cache, cli, model, sim and verify.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/index_types.h"
#include "kernels/ops/plane.h"
#include "kernels/step/step_builder.h"

namespace sluice {

enum class PlaneKind { kLatent, kWindow, kOpen };
const char* name(PlaneKind kind);

struct PlaneSpec {
  PlaneKind kind = PlaneKind::kLatent;
  std::string name;  // "layers.2.csa"
  int layer = 0;
  int tokens_per_row = 1;          // Latent; divides kBlockTokens
  int window_tokens = 0;           // Window: keys a row looks back, itself included
  int most_read = 0;               // Latent: the most rows that a token reads; 0: all that it sees
  int read_beyond = 0;             // Latent: read only by tokens that see more rows than this
  RowFormat format;                // Latent, Window; Open: if the state is a row
  std::vector<std::byte> initial;  // Open: the state before the first token
  int boundary_bytes = 0;          // Open: bytes of the state that a window page stores
  PlaneId kept_in = {};            // Open: the Latent plane with one row a block that stores the whole state instead

  // The bytes of this plane's part of a page, including padding. Open: a window page holds one row of boundary_bytes.
  int rows_per_page() const;
  std::size_t page_bytes() const;
  // The bytes that `rows` tokens from `position` on read of the plane; a row that several of them read counts once.
  std::size_t read_bytes(Position position, int rows) const;
  // The plane, its pages consecutive from `base` on, an address of a device (kernels/device/device.h).
  PlaneView view(std::byte* base) const;
};

struct CacheLayout {
  std::vector<PlaneSpec> planes;  // index: PlaneId
  bool differs_by_rank = false;   // each rank of a group caches rows of its own; false: all ranks cache the same

  PlaneId add(PlaneSpec spec);
  const PlaneSpec& operator[](PlaneId id) const { return planes[static_cast<std::size_t>(id.value)]; }
  PlaneSpec& operator[](PlaneId id) { return planes[static_cast<std::size_t>(id.value)]; }

  std::size_t latent_page_bytes() const;                      // per 128-token block
  std::size_t window_page_bytes() const;                      // per 128-token block, with boundary bytes
  std::size_t open_bytes() const;                             // bytes of one copy for one sequence
  std::size_t open_offset(PlaneId id) const;                  // in those bytes; 64-byte aligned
  std::size_t read_bytes(Position position, int rows) const;  // over all planes
  int window_tokens() const;                                  // the widest window; 0: none
  TableShape table_shape() const;                             // the tables that a step needs for its planes
  // Window pages that a sequence at a block boundary must hold: ceil((window - 1) / 128), and at least the last one if
  // it has boundary bytes.
  int window_pages_to_resume() const;

  // open_bytes(): the state before the first token.
  std::vector<std::byte> initial_state() const;

  double latent_bytes_per_token() const { return static_cast<double>(latent_page_bytes()) / kBlockTokens; }
};

}  // namespace sluice
