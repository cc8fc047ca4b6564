// SequenceState: the cached state of one sequence for positions [0, position()). It has a latent page per block, the
// window pages that the next row can see or that going back to the last block boundary needs, and the open state.
//
//   resume(...)     an empty sequence takes over cached pages
//   reserve(n, d)   pages for the next n rows, the last d of which compute tokens that somebody guessed (drafts)
//   span(...)       the view of them that a forward pass gets
//   commit(k)       the first k rows become part of the sequence, the others never happened: the open state that the
//                   pass left after the last of them is the committed one, full blocks are inserted, pages no longer
//                   needed are given back. What rejected rows wrote lies beyond position(), where no row sees it before
//                   it is written again
//   discard()       the rows never happened (a dropped step)
// The state law: after commit it is a function of the tokens [0, position()) only. So
//   fork            two sequences with the same tokens up to position(); a page is copied when one of them first
//                   writes to it. Latents beyond position() are not shared
//   truncate(p)     removes the tokens from p on: goes back to the last point r <= p that it can resume from, and
//                   returns r; rows from r on have to be computed again. Truncating and recomputing = never going on
//   save, restore   save as bytes, close, restore = no interruption
// Pages are given back tail first; close() before the end of its life. `pools` must outlive it. Thread safety: one
// thread at a time.
// Used by audit.h and engine/runner/open_sequences.h.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/index_types.h"
#include "cache/cache_pools.h"
#include "cache/prefix_cache.h"
#include "model/batch.h"

namespace sluice {

class SequenceState {
 public:
  SequenceState() = default;  // closed
  SequenceState(const SequenceState&) = delete;
  SequenceState& operator=(const SequenceState&) = delete;

  // Becomes the empty sequence, and the owner of `slot`, which the caller allocated.
  void open(CachePools* pools, StateSlot slot);
  // Becomes the same sequence as `other` up to its position, and shares the pages up to there. Later tokens may differ,
  // so latents that `other` has from the prefix cache for its own later tokens are not shared.
  void fork(const SequenceState& other, StateSlot slot);
  // Gives back everything; closed afterwards. The vectors keep their capacity for the next open().
  void close();
  bool is_open() const { return pools_ != nullptr; }

  // For an empty sequence: claims the cached pages of `hit`, which the prefix cache has just found for `chain`.
  void resume(const BlockChain& chain, const PrefixHit& hit);

  Position position() const { return position_; }
  int reserved_rows() const { return reserved_; }

  // Reserves pages for the next rows. Returns false and changes nothing if a pool is short. There is at most one
  // reservation at a time; rows > drafts, and drafts <= MemoryPlan::open_states - 2.
  bool reserve(int rows, int drafts = 0);
  // Valid until the next call of anything but a const function.
  BatchSpan span() const;
  // Keeps the first `rows` rows of the reservation: all rows that are no drafts, and any number of the drafts. With a
  // cache, the blocks that they complete are inserted under their names in `chain`.
  void commit(int rows, PrefixCache* cache = nullptr, const BlockChain* chain = nullptr);
  void discard();
  // The open state after the last row of the reservation.
  OpenState scratch() const { return OpenState(span().state_after(reserved_ - 1)); }

  // `chain`, when given, finds window pages that are no longer held but still cached.
  Position truncate(Position p, const BlockChain* chain = nullptr);

  // save() writes the state as bytes, an image (cache/pages/cache_memory.h). restore() reads them into an open, empty
  // sequence: blocks that are still cached are claimed, the others copied. It returns false and changes nothing if a
  // pool is short.
  std::size_t saved_bytes() const;
  void save(std::span<std::byte> bytes) const;
  bool restore(std::span<const std::byte> bytes, Position position, PrefixCache* cache = nullptr,
               const BlockChain* chain = nullptr);

  // Lets the window pages before the last block boundary stay cached when the sequence leaves them.
  void keep_last_boundary(PrefixCache& cache, const BlockChain& chain) const;
  // For tests of short memory: an empty sequence that holds this many latent pages, or all there are if fewer.
  void occupy(int latent_pages);
  int occupied() const { return occupied_; }
  // The number of latent pages that no other sequence holds.
  int exclusive_latent_pages() const;

  Position shared() const { return shared_; }  // latent pages of rows below this came from the prefix cache
  // The latents of rows below this are in the pages that it holds: more than position() if they are shared, or if it
  // was truncated within a block.
  Position latents_end() const { return std::max({position_, shared_, latents_end_}); }
  StateSlot slot() const { return slot_; }
  const std::vector<LatentPage>& latent_pages() const { return latent_pages_; }  // [block]
  const std::vector<WindowPage>& window_pages() const { return window_pages_; }  // [block - first_window_block()]
  std::int32_t first_window_block() const { return first_window_block_; }
  // For tests of the tests: close() keeps one reference to a page.
  bool fault_leak = false;

 private:
  void free_tail(Position end);
  void take_boundary_state();
  void leave_windows_before(std::int32_t block);
  void insert(PrefixCache& cache, const BlockChain& chain, int begin, int end);
  bool copy_on_write(int* latents, int* windows) const;
  template <class Page>
  static int free_pages_needed(const Pool<Page>& pool, std::span<const BlockHash> names, int begin, int end);
  template <class Page>
  static void take_pages(Pool<Page>& pool, std::span<const BlockHash> names, int begin, int end,
                         std::vector<Page>* pages);
  void copy_shared_tail();
  OpenState committed() const { return pools_->state_of(slot_, committed_copy_); }
  std::size_t computed_latent_pages() const;

  CachePools* pools_ = nullptr;
  StateSlot slot_;
  int committed_copy_ = 0;  // index among the open states, which are a ring
  Position position_ = 0;
  Position shared_ = 0;  // rows below write no latents: their pages came from the prefix cache
  Position latents_end_ = 0;
  int reserved_ = 0, drafts_ = 0, occupied_ = 0;
  std::vector<LatentPage> latent_pages_;
  std::vector<WindowPage> window_pages_;
  std::int32_t first_window_block_ = 0;
};

}  // namespace sluice
