// PrefixCache: finds the cached prefix of a sequence's tokens, and inserts computed blocks.
//
// A hit is the longest n such that the latent pages of blocks 0..n-1 and the last window pages before block n are
// cached, and at least one token is left to compute. If the latent blocks match further than a sequence can resume,
// they are shared all the same, and the rows between are computed for their windows only. The place is remembered, so
// that the window page there is kept the next time it is made (the demand rule).
//
// Blocks that a running sequence is about to compute are expected: a request that needs them may wait for them instead
// of computing them again. Blocks are inserted after they are computed, never before. Does not own the pools. Thread
// safety: one thread at a time.
// Used by audit.h, engine/runner/engine_cache.h, engine/step/sequence_table.h and sequence_state.h.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <deque>
#include <limits>
#include <vector>

#include "cache/cache_pools.h"
#include "cache/fault.h"
#include "cache/pages/block_chain.h"
#include "cache/pages/retention.h"
#include "cache/prefix_hit.h"

namespace sluice {

struct PrefixCacheOptions {
  bool enabled = true;
  RetentionRules retention = {};
  bool digests = false;  // remember a digest of every inserted page, for the audit; each waits for the device
  Fault fault = Fault::kNone;
};

class PrefixCache {
 public:
  PrefixCache(CachePools* pools, const PrefixCacheOptions& options);

  static constexpr Position kNoLimit = std::numeric_limits<Position>::max();

  bool enabled() const { return options_.enabled; }
  void set_enabled(bool enabled) { options_.enabled = enabled; }  // between requests
  const RetentionRules& retention() const { return options_.retention; }
  void set_retention(const RetentionRules& rules) { options_.retention = rules; }  // between requests
  Fault fault() const { return options_.fault; }

  // Looks up a sequence with `known` tokens; the chain covers their full blocks. Remembers a demand if the hit is
  // shorter than the match, or than the match once the expected blocks are there. The hit saves at most `most_resume`
  // tokens, however much is cached.
  PrefixHit lookup(const BlockChain& chain, Position known, Position most_resume = kNoLimit);

  // A running sequence will compute blocks [begin, end) of the chain; every expect() is undone by a forget_expected()
  // of the same blocks.
  void expect(const BlockChain& chain, int begin, int end);
  void forget_expected(const BlockChain& chain, int begin, int end);

  // Inserts the page, which the caller owns and in which block `block` of the chain has been computed. Returns the page
  // to use from now on: if another page already has this content, the caller's is released and the other one claimed.
  LatentPage insert(LatentPage page, const BlockChain& chain, int block);
  WindowPage insert(WindowPage page, const BlockChain& chain, int block);
  // Lets the window page of block `block` stay cached when its owners are gone.
  void keep_window(const BlockChain& chain, int block);

  // Forgets every page that no sequence holds, and all demands.
  void reset();

  // Digest of an inserted page's bytes when it was inserted; only with options.digests.
  std::uint64_t digest_at_publication(LatentPage page) const { return latent_digests_[index(page.value)]; }
  std::uint64_t digest_at_publication(WindowPage page) const { return window_digests_[index(page.value)]; }
  std::uint64_t digest_now(LatentPage page) const { return pools_->memory().digest(page); }
  std::uint64_t digest_now(WindowPage page) const { return pools_->memory().digest(page); }
  bool has_digests() const { return options_.digests; }
  // A text about the first block that was computed again with other bytes; "": none. Only with options.digests.
  const std::string& other_bytes() const { return other_bytes_; }
  std::size_t expected_blocks() const { return expected_.size(); }
  // The number of sequences that are expected to compute the block.
  int expected(const BlockHash& hash) const {
    const auto found = expected_.find(hash);
    return found == expected_.end() ? 0 : found->second;
  }

 private:
  static constexpr std::size_t kMaxDemands = 4096;
  static std::size_t index(std::int32_t page) { return static_cast<std::size_t>(page); }

  bool can_resume_behind(const BlockChain& chain, int blocks) const;
  bool keeps(const BlockChain& chain, int block) const;
  void demand(const BlockHash& hash);
  template <class Page>
  Page insert_once(Pool<Page>& pool, Page page, const BlockChain& chain, int block,
                   std::vector<std::uint64_t>* digests);

  CachePools* pools_;
  PrefixCacheOptions options_;
  boost::unordered_flat_map<BlockHash, int, BlockHashWord> expected_;   // only looked up, never iterated
  boost::unordered_flat_map<BlockHash, bool, BlockHashWord> demanded_;  // likewise
  std::deque<BlockHash> demands_;                                       // the oldest first
  std::vector<std::uint64_t> latent_digests_, window_digests_;          // [page]
  std::string other_bytes_;
};

}  // namespace sluice
