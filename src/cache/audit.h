// audit: the conservation law, checked. Every page has exactly the owners that its count says, free + used = all, and
// each sequence holds exactly the pages of its position. Cost: a pass over all pages; for tests and debugging.
#pragma once

#include <span>

#include "cache/cache_pools.h"
#include "cache/sequence_state.h"
#include "sluice/status.h"

namespace sluice {

// `sequences`: everything that may own pages; closed ones are skipped. An error (kInternal) names the first page or
// sequence that is wrong.
Status audit(const CachePools& pools, std::span<const SequenceState> sequences);

}  // namespace sluice
