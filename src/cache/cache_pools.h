// CachePools: the pools of a MemoryPlan: the owners of pages and states, and their memory.
//
// The lowest vacant page is allocated first; if none is vacant, the cached page that was released longest ago. Owns the
// memory; `layout` and the device must outlive it. Thread safety: one thread at a time (a forward pass may read and
// write pages that it was given from all of its threads).
// Used by audit.h, engine/runner/engine_cache.h, prefix_cache.h and sequence_state.h.
#pragma once

#include <cstddef>
#include <memory>

#include "base/index_types.h"
#include "cache/memory_plan.h"
#include "cache/pages/cache_memory.h"
#include "cache/pages/page_geometry.h"
#include "cache/pages/page_pool.h"
#include "model/batch.h"
#include "model/cache_layout.h"

namespace sluice {

class CachePools {
 public:
  static Result<std::unique_ptr<CachePools>> create(Device& device, const CacheLayout& layout, const MemoryPlan& plan);
  CachePools(const CachePools&) = delete;
  CachePools& operator=(const CachePools&) = delete;

  const CacheLayout& layout() const { return layout_; }
  const PageGeometry& geometry() const { return geometry_; }
  const MemoryPlan& plan() const { return plan_; }

  Pool<LatentPage>& latents() { return latents_; }
  Pool<WindowPage>& windows() { return windows_; }
  Pool<StateSlot>& slots() { return slots_; }
  const Pool<LatentPage>& latents() const { return latents_; }
  const Pool<WindowPage>& windows() const { return windows_; }
  const Pool<StateSlot>& slots() const { return slots_; }

  // An open state of a slot; copy < plan().open_states.
  OpenState state_of(StateSlot slot, int copy) const { return OpenState(slot.value * plan_.open_states + copy); }

  CacheMemory& memory() { return memory_; }
  const CacheMemory& memory() const { return memory_; }
  const CacheView& view() const { return memory_.view(); }

  std::size_t bytes_total() const { return plan_.total_bytes(); }
  std::size_t bytes_used() const;

 private:
  CachePools(const CacheLayout& layout, const MemoryPlan& plan, CacheMemory memory);

  const CacheLayout& layout_;
  PageGeometry geometry_;
  MemoryPlan plan_;
  Pool<LatentPage> latents_;
  Pool<WindowPage> windows_;
  Pool<StateSlot> slots_;
  CacheMemory memory_;
};

}  // namespace sluice
