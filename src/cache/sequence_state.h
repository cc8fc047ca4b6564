// SequenceState: what is cached of one sequence for positions [0, position()): a latent page per block, the window
// pages that the next row can see, and the open state.
//
//   reserve(n)      pages for the next n rows
//   span(...)       the view of them that a forward pass gets
//   commit(n)       the rows are part of the sequence: the open state that the pass left in scratch becomes the
//   committed one (the
//                   two copies swap), and window pages that no later row can see are freed
//   discard()       the rows never happened (a rejected speculation, a dropped step)
// The state law: after commit it is a function of the tokens [0, position()) only.
// Pages are freed tail first; close() before the end of its life. `pools` must outlive it. Thread safety: one thread at
// a time.
#pragma once

#include <cstdint>
#include <vector>

#include "base/index_types.h"
#include "cache/cache_pools.h"
#include "model/batch.h"

namespace sluice {

class SequenceState {
 public:
  SequenceState() = default;  // closed
  SequenceState(const SequenceState&) = delete;
  SequenceState& operator=(const SequenceState&) = delete;

  // Becomes the empty sequence, and the owner of `slot`, which the caller allocated.
  void open(CachePools* pools, StateSlot slot);
  // Frees everything; closed afterwards. The vectors keep their capacity for the next open().
  void close();
  bool is_open() const { return pools_ != nullptr; }

  Position position() const { return position_; }
  int reserved_rows() const { return reserved_; }

  // False, and unchanged, when a pool is short. At most one reservation at a time; rows >= 1.
  bool reserve(int rows);
  // Valid until the next call of anything but a const function.
  BatchSpan span(int row_begin) const;
  void commit();
  void discard();

  StateSlot slot() const { return slot_; }
  const std::vector<LatentPage>& latent_pages() const { return latent_pages_; }  // [block]
  const std::vector<WindowPage>& window_pages() const { return window_pages_; }  // [block - first_window_block()]
  std::int32_t first_window_block() const { return first_window_block_; }

 private:
  void free_tail(Position end);

  CachePools* pools_ = nullptr;
  StateSlot slot_;
  int committed_copy_ = 0;  // of the open state; the other one is scratch
  Position position_ = 0;
  int reserved_ = 0;
  std::vector<LatentPage> latent_pages_;
  std::vector<WindowPage> window_pages_;
  std::int32_t first_window_block_ = 0;
};

}  // namespace sluice
