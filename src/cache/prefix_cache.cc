// Used by audit.h, engine/runner/engine_cache.h, engine/step/sequence_table.h and sequence_state.h.
#include "cache/prefix_cache.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace sluice {

PrefixCache::PrefixCache(CachePools* pools, const PrefixCacheOptions& options) : pools_(pools), options_(options) {
  if (options.digests) {
    latent_digests_.resize(index(pools->latents().total()));
    window_digests_.resize(index(pools->windows().total()));
  }
  if (options.fault == Fault::kStaleHash) {
    pools->latents().untyped().fault_stale_hash = true;
    pools->windows().untyped().fault_stale_hash = true;
  }
}

PrefixHit PrefixCache::lookup(const BlockChain& chain, Position known, Position most_resume) {
  PrefixHit hit;
  if (!options_.enabled) return hit;
  const PageGeometry& geometry = pools_->geometry();
  const int full = std::min(chain.blocks(), known / kBlockTokens);
  int matched = geometry.has_latents ? 0 : full;
  for (; geometry.has_latents && matched < full; ++matched) {
    const LatentPage page = pools_->latents().find(chain[matched]);
    if (!page) break;
    hit.claimed_free += pools_->latents().owners(page) == 0;
  }
  const int most = std::min(known - 1, most_resume) / kBlockTokens;
  int resume = std::min(matched, most);
  const int wanted = resume;
  while (resume > 0 && !can_resume_behind(chain, resume)) --resume;
  if (!geometry.has_latents) matched = resume;  // without latents only window pages show what was computed
  if (resume < std::min(wanted, matched)) demand(chain[wanted - 1]);

  hit.resume = resume * kBlockTokens;
  hit.shared = matched * kBlockTokens;
  int coming = matched;
  while (coming < std::min(full, most) && expected_.contains(chain[coming])) ++coming;
  if (coming > matched) {
    hit.wait = true;
    demand(chain[coming - 1]);
  }
  return hit;
}

bool PrefixCache::can_resume_behind(const BlockChain& chain, int blocks) const {
  for (int b = std::max(0, blocks - pools_->geometry().resume_pages); b < blocks; ++b) {
    if (!pools_->windows().find(chain[b])) return false;
  }
  return true;
}

void PrefixCache::expect(const BlockChain& chain, int begin, int end) {
  for (int b = begin; b < end; ++b) ++expected_[chain[b]];
}

void PrefixCache::forget_expected(const BlockChain& chain, int begin, int end) {
  for (int b = begin; b < end; ++b) {
    const auto found = expected_.find(chain[b]);
    SLUICE_CHECK(found != expected_.end(), "only what was expected can be forgotten");
    if (--found->second == 0) expected_.erase(found);
  }
}

template <class Page>
Page PrefixCache::insert_once(Pool<Page>& pool, Page page, const BlockChain& chain, int block,
                              std::vector<std::uint64_t>* digests) {
  const BlockHash& hash = chain[block];
  const bool known = pool.inserted(page) && pool.hash(page) == hash;
  if (!pool.insert(page, hash)) {
    const Page first = pool.find(hash);
    if (options_.digests && other_bytes_.empty() && digest_now(page) != (*digests)[index(first.value)]) {
      other_bytes_ = fmt::format("block {} was computed in page {} with other bytes than in page {} before", block,
                                 page.value, first.value);
    }
    pool.claim(first);
    pool.release(page);
    return first;
  }
  if (options_.digests && !known) (*digests)[index(page.value)] = digest_now(page);
  return page;
}

LatentPage PrefixCache::insert(LatentPage page, const BlockChain& chain, int block) {
  const LatentPage first = insert_once(pools_->latents(), page, chain, block, &latent_digests_);
  pools_->latents().keep(first);
  return first;
}

WindowPage PrefixCache::insert(WindowPage page, const BlockChain& chain, int block) {
  const WindowPage first = insert_once(pools_->windows(), page, chain, block, &window_digests_);
  if (keeps(chain, block)) pools_->windows().keep(first);
  return first;
}

void PrefixCache::keep_window(const BlockChain& chain, int block) {
  const WindowPage page = pools_->windows().find(chain[block]);
  if (page && pools_->windows().owners(page) > 0) pools_->windows().keep(page);
}

bool PrefixCache::keeps(const BlockChain& chain, int block) const {
  const RetentionRules& rules = options_.retention;
  // A wide window needs several pages before a boundary: a page is kept for each boundary that it serves.
  for (int end = block; end < block + std::max(1, pools_->geometry().resume_pages); ++end) {
    if (chain.keeps(end) || (rules.every_64th && (end + 1) % RetentionRules::kLadderBlocks == 0)) return true;
    if (rules.demand && end < chain.blocks() && demanded_.contains(chain[end])) return true;
  }
  return false;
}

void PrefixCache::demand(const BlockHash& hash) {
  if (!demanded_.emplace(hash, true).second) return;
  demands_.push_back(hash);
  if (demands_.size() <= kMaxDemands) return;
  demanded_.erase(demands_.front());
  demands_.pop_front();
}

void PrefixCache::reset() {
  pools_->latents().forget_cached();
  pools_->windows().forget_cached();
  demanded_.clear();
  demands_.clear();
  other_bytes_.clear();
}

}  // namespace sluice
