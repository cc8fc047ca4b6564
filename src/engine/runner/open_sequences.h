// OpenSequences: the states of a runner's open sequences, by their slots. They begin empty, with cached pages, as a
// copy, or from the swap space; the runner's steps make them longer.
//
// The prefix cache works through BlockChain: resume() adopts the pages that a lookup found, and commit() inserts the
// blocks that a step completed. fork, truncate, swap_out and swap_in do what SequenceState's functions do. Thread
// safety: one thread at a time.
// Used by runner.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cache/sequence_state.h"
#include "engine/runner/engine_cache.h"
#include "sluice/status.h"

namespace sluice {

class OpenSequences {
 public:
  explicit OpenSequences(EngineCache* cache) : cache_(*cache) {}  // which must outlive it

  // A new, empty sequence. kResourceExhausted when max_num_seqs (and one more) are open.
  Result<StateSlot> open();
  // Closes the sequence. If its chain is given, the boundary after its last full block stays cached (the next turn
  // resumes there).
  void close(StateSlot sequence, const BlockChain* keep_last = nullptr);
  // Lets an empty sequence begin with the pages that the lookup found. To be called right after the lookup.
  void resume(StateSlot sequence, const BlockChain& chain, const PrefixHit& hit);
  // Fails like open().
  Result<StateSlot> fork(StateSlot sequence);
  Position truncate(StateSlot sequence, Position p, const BlockChain* chain);
  // For tests of short memory: opens a sequence that computes nothing and holds all latent pages except this many.
  Result<StateSlot> occupy_all_but(int latent_pages);
  // Moves the state to the swap space and closes the sequence. Changes nothing on an error.
  Result<SwapHandle> swap_out(StateSlot sequence);
  // Opens a sequence of `position` tokens from the swap space. On an error the image is gone as well, and the tokens
  // have to be computed again.
  Result<StateSlot> swap_in(SwapHandle image, Position position, const BlockChain* chain);
  // Keeps the first `rows` rows of the span that Runner::begin() computed for the sequence: none, or all except some of
  // its drafts.
  void commit(StateSlot sequence, int rows, const BlockChain* chain = nullptr);

  Position position(StateSlot sequence) const { return state(sequence).position(); }
  const SequenceState& state(StateSlot sequence) const { return states_[index(sequence)]; }
  // Checks the laws of conservation and publication (cache/audit.h).
  Status audit() const;

 private:
  friend class Runner;  // which reserves rows, and begins anew
  static std::size_t index(StateSlot slot) { return static_cast<std::size_t>(slot.value); }
  // Has room for this many sequences, none of which is open; those before are forgotten, as their pools are gone.
  void begin(int sequences);
  bool is_open(StateSlot slot) const;
  bool any_open() const;
  SequenceState& entry(StateSlot sequence) { return states_[index(sequence)]; }

  EngineCache& cache_;
  std::vector<SequenceState> states_;  // by StateSlot
  mutable std::uint64_t audits_ = 0;
};

}  // namespace sluice
