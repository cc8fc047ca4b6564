// Used by audit.h, engine/runner/engine_cache.h, prefix_cache.h and sequence_state.h.
#include "cache/cache_pools.h"

#include <utility>

namespace sluice {

CachePools::CachePools(const CacheLayout& layout, const MemoryPlan& plan, CacheMemory memory)
    : layout_(layout),
      geometry_(PageGeometry::of(layout)),
      plan_(plan),
      latents_(plan.latent_pages),
      windows_(plan.window_pages),
      slots_(plan.sequences + 1),
      memory_(std::move(memory)) {}

Result<std::unique_ptr<CachePools>> CachePools::create(Device& device, const CacheLayout& layout,
                                                       const MemoryPlan& plan) {
  SLUICE_ASSIGN_OR_RETURN(CacheMemory memory, CacheMemory::create(device, layout, plan));
  return std::unique_ptr<CachePools>(new CachePools(layout, plan, std::move(memory)));
}

std::size_t CachePools::bytes_used() const {
  return static_cast<std::size_t>(latents_.used()) * layout_.latent_page_bytes() +
         static_cast<std::size_t>(windows_.used()) * layout_.window_page_bytes() +
         static_cast<std::size_t>(slots_.used() * plan_.open_states) * layout_.open_bytes();
}

}  // namespace sluice
