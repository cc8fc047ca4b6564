// CachePools: the memory of a MemoryPlan and who owns which page of it.
//
// One array per stream, indexed by page; one page id serves all layers. The memory is mapped but not touched, so a
// large budget costs nothing before pages are used, and the lowest free page is always taken first. Owns the memory;
// `layout` must outlive it. Thread safety: one thread at a time (a forward pass may read and write pages that it was
// given from all of its threads).
#pragma once

#include <cstddef>
#include <memory>

#include "base/index_types.h"
#include "cache/memory_plan.h"
#include "cache/page_geometry.h"
#include "cache/pool.h"
#include "model/batch.h"
#include "model/cache_layout.h"

namespace sluice {

using StateSlot = StrongIndex<struct StateSlotTag>;  // the open states of one running sequence

class CachePools {
 public:
  static Result<std::unique_ptr<CachePools>> create(const CacheLayout& layout, const MemoryPlan& plan);
  ~CachePools();
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

  const CacheView& view() const { return view_; }
  // Copy 0 or 1 of a sequence's open state: layout().open_bytes() bytes, 64-byte aligned.
  std::byte* open_state(StateSlot slot, int copy) const;

  std::size_t bytes_total() const { return plan_.total_bytes(); }
  std::size_t bytes_used() const;

 private:
  CachePools(const CacheLayout& layout, const MemoryPlan& plan);
  static void advise_huge_pages(std::byte* begin, std::size_t bytes, std::size_t page_bytes);
  Status map_memory();

  const CacheLayout& layout_;
  PageGeometry geometry_;
  MemoryPlan plan_;
  Pool<LatentPage> latents_;
  Pool<WindowPage> windows_;
  Pool<StateSlot> slots_;
  CacheView view_;
  std::byte* memory_ = nullptr;
  std::size_t mapped_bytes_ = 0;
  std::byte* open_states_ = nullptr;
};

}  // namespace sluice
