// Used by open_sequences.h and runner.h.
#include "engine/runner/engine_cache.h"

#include "engine/engine_options.h"

namespace sluice {

Status EngineCache::begin(Device& device, const CacheLayout& layout, const MemoryPlan& plan,
                          const EngineSetup& options) {
  prefix_cache_.reset();
  SLUICE_ASSIGN_OR_RETURN(pools_, CachePools::create(device, layout, plan));
  SLUICE_ASSIGN_OR_RETURN(const Fault fault, parse_fault(options.testing.inject_fault));
  PrefixCacheOptions caching;
  caching.enabled = options.cache.enable_prefix_caching;
  caching.digests = options.audit;
  caching.fault = fault;
  prefix_cache_ = std::make_unique<PrefixCache>(pools_.get(), caching);
  SLUICE_ASSIGN_OR_RETURN(
      swap_space_, SwapSpace::create(static_cast<std::size_t>(options.cache.swap_space), options.cache.swap_dir));
  return {};
}

BlockHash EngineCache::root(std::string_view cache_salt) const {
  const bool ignored = prefix_cache_->fault() == Fault::kIgnoredSalt;
  return root_hash(computed_by_, ignored ? std::string_view() : cache_salt);
}

}  // namespace sluice
