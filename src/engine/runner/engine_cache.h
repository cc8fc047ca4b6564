// EngineCache: the memory in which a runner's sequences have their state: the pools, the prefix cache over them, and
// the swap space. Owns all three. Thread safety: one thread at a time.
// Used by open_sequences.h and runner.h.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "cache/cache_pools.h"
#include "cache/pages/swap_space.h"
#include "cache/prefix_cache.h"
#include "model/engine_setup.h"
#include "sluice/status.h"

namespace sluice {

class EngineCache {
 public:
  // Discards every page and image and begins anew, with memory of the device. No sequence may be open. To be called
  // before anything else. The device and the layout must outlive it.
  Status begin(Device& device, const CacheLayout& layout, const MemoryPlan& plan, const EngineSetup& options);

  CachePools& pools() { return *pools_; }
  const CachePools& pools() const { return *pools_; }
  PrefixCache& prefix_cache() { return *prefix_cache_; }
  const PrefixCache& prefix_cache() const { return *prefix_cache_; }
  SwapSpace& swap_space() { return *swap_space_; }
  const SwapSpace& swap_space() const { return *swap_space_; }

  // The name with which every chain begins whose pages the same weights and profile compute.
  BlockHash root(std::string_view cache_salt) const;
  // From now on pages are computed by these: the profile's text and the version of the weights.
  void set_computed_by(std::string computed_by) { computed_by_ = std::move(computed_by); }

 private:
  std::unique_ptr<CachePools> pools_;
  std::unique_ptr<PrefixCache> prefix_cache_;
  std::unique_ptr<SwapSpace> swap_space_;
  std::string computed_by_;
};

}  // namespace sluice
