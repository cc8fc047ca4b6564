// Used by runner.h.
#include "engine/runner/open_sequences.h"

#include <fmt/format.h>

#include <algorithm>

#include "cache/audit.h"

namespace sluice {

void OpenSequences::begin(int sequences) {
  states_ = std::vector<SequenceState>(static_cast<std::size_t>(sequences));
  const bool leak = sequences > 0 && cache_.prefix_cache().fault() == Fault::kLeakedReference;
  for (SequenceState& state : states_) state.fault_leak = leak;
}

bool OpenSequences::is_open(StateSlot slot) const {
  return slot.value >= 0 && index(slot) < states_.size() && states_[index(slot)].is_open();
}

bool OpenSequences::any_open() const {
  return std::ranges::any_of(states_, [](const SequenceState& state) { return state.is_open(); });
}

Result<StateSlot> OpenSequences::open() {
  const StateSlot slot = cache_.pools().slots().allocate();
  if (!slot) return resource_exhausted(fmt::format("{} sequences are open, as many as there can be", states_.size()));
  entry(slot).open(&cache_.pools(), slot);
  return slot;
}

void OpenSequences::close(StateSlot sequence, const BlockChain* keep_last) {
  SequenceState& state = entry(sequence);
  PrefixCache& cache = cache_.prefix_cache();
  if (keep_last != nullptr && cache.enabled()) state.keep_last_boundary(cache, *keep_last);
  state.close();
}

void OpenSequences::resume(StateSlot sequence, const BlockChain& chain, const PrefixHit& hit) {
  entry(sequence).resume(chain, hit);
}

Result<StateSlot> OpenSequences::fork(StateSlot sequence) {
  const StateSlot slot = cache_.pools().slots().allocate();
  if (!slot) return resource_exhausted(fmt::format("{} sequences are open, as many as there can be", states_.size()));
  entry(slot).fork(entry(sequence), slot);
  return slot;
}

Position OpenSequences::truncate(StateSlot sequence, Position p, const BlockChain* chain) {
  return entry(sequence).truncate(p, chain);
}

Result<StateSlot> OpenSequences::occupy_all_but(int latent_pages) {
  SLUICE_ASSIGN_OR_RETURN(const StateSlot slot, open());
  entry(slot).occupy(std::max(0, cache_.pools().latents().free() - latent_pages));
  return slot;
}

Result<SwapHandle> OpenSequences::swap_out(StateSlot sequence) {
  SequenceState& state = entry(sequence);
  SwapSpace& space = cache_.swap_space();
  if (!space.has_room(state.saved_bytes())) {
    return resource_exhausted(fmt::format("--swap-space: {} bytes of state do not fit, {} of {} are used",
                                          state.saved_bytes(), space.bytes_used(), space.bytes_total()));
  }
  std::vector<std::byte> image(state.saved_bytes());
  state.save(image);
  SLUICE_ASSIGN_OR_RETURN(const SwapHandle handle, space.store(std::move(image)));
  state.close();
  return handle;
}

Result<StateSlot> OpenSequences::swap_in(SwapHandle handle, Position position, const BlockChain* chain) {
  SLUICE_ASSIGN_OR_RETURN(const std::vector<std::byte> image, cache_.swap_space().take(handle));
  SLUICE_ASSIGN_OR_RETURN(const StateSlot slot, open());
  PrefixCache* cache = chain != nullptr ? &cache_.prefix_cache() : nullptr;
  if (entry(slot).restore(image, position, cache, chain)) return slot;
  close(slot);
  return resource_exhausted(fmt::format("a state of {} tokens needs more cache pages than are free", position));
}

void OpenSequences::commit(StateSlot sequence, int rows, const BlockChain* chain) {
  SequenceState& state = entry(sequence);
  if (rows == 0) return state.discard();
  state.commit(rows, chain != nullptr ? &cache_.prefix_cache() : nullptr, chain);
}

Status OpenSequences::audit() const {
  constexpr int kDigestedPages = 16;
  return sluice::audit(cache_.pools(), states_, &cache_.prefix_cache(), kDigestedPages, audits_++);
}

}  // namespace sluice
