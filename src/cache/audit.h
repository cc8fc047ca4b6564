// audit: checks the laws of conservation and publication. Every page has as many owners as it counts, and used + cached
// + vacant = all. Each sequence holds exactly the pages of its position, and an inserted page that it holds is a block
// that it has computed. With digests (PrefixCacheOptions), a sample of the inserted pages still has the bytes that were
// inserted, and every recomputed block had the bytes of the first time. Cost: a pass over all pages; for tests and
// debugging.
// Used by engine/runner/open_sequences.cc and engine/step/stepper_audit.cc.
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

// Checks that the cache expects the blocks of `computing`, each as often as it is listed, and no others. A request that
// waits for a block which no sequence computes would wait in vain.
Status audit_expected(const PrefixCache& cache, std::span<const ExpectedBlocks> computing);

}  // namespace sluice
