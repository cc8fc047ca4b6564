// audit: the conservation and publication laws, checked. Every page has exactly the owners that its count says, used +
// cached + vacant = all, each sequence holds exactly the pages of its position, and an inserted page held by a sequence
// is a block that it has computed. With digests (PrefixCacheOptions), the bytes of a sample of the inserted pages are
// those that were inserted, and every block that was computed again had the bytes of the first time. Cost: a pass over
// all pages; for tests and debugging.
#pragma once

#include <span>

#include "cache/cache_pools.h"
#include "cache/prefix_cache.h"
#include "cache/sequence_state.h"
#include "sluice/status.h"

namespace sluice {

// `sequences`: everything that may own pages; closed ones are skipped. `cache` may be null. An error (kInternal) names
// the first page or sequence that is wrong. `sample`: how many inserted pages of each pool are digested, starting at a
// page that depends on `turn`.
Status audit(const CachePools& pools, std::span<const SequenceState> sequences, const PrefixCache* cache = nullptr,
             int sample = 0, std::uint64_t turn = 0);

// Blocks [begin, end) of a chain, which a running sequence is about to compute.
struct ExpectedBlocks {
  const BlockChain* chain = nullptr;
  int begin = 0, end = 0;
};

// The cache expects the blocks of `computing`, each as often as it is there, and no others: a request that waits for a
// block which nobody computes would wait in vain.
Status audit_expected(const PrefixCache& cache, std::span<const ExpectedBlocks> computing);

}  // namespace sluice
