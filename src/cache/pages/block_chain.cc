// Used by cache/prefix_cache.h, engine/runner/step_span.h, engine/step/sequence_table.h and page_pool.h.
#include "cache/pages/block_chain.h"

#include <algorithm>

#include "base/check.h"
#include "base/sha256.h"

namespace sluice {

void BlockChain::extend(std::span<const TokenId> tokens) {
  constexpr auto kTokens = static_cast<std::size_t>(kBlockTokens);
  while ((hashes_.size() + 1) * kTokens <= tokens.size()) {
    const BlockHash& parent = hashes_.empty() ? root_ : hashes_.back();
    hashes_.push_back(child_hash(parent, tokens.subspan(hashes_.size() * kTokens, kTokens)));
  }
}

bool BlockChain::keeps(int block) const {
  return std::binary_search(kept_.begin(), kept_.end(), block);
}

namespace {

// One per thread: making one costs more than hashing a block.
Sha256& sha256() {
  thread_local Sha256 instance;
  instance.begin();
  return instance;
}

// The length goes first, so that no two lists of parts run into each other.
void add_part(Sha256& sha, std::string_view part) {
  const auto size = static_cast<std::uint64_t>(part.size());
  sha.add(&size, sizeof(size));
  sha.add(part.data(), part.size());
}

}  // namespace

BlockHash root_hash(std::string_view profile, std::string_view cache_salt) {
  Sha256& sha = sha256();
  add_part(sha, "sluice block chain 1");
  add_part(sha, profile);
  add_part(sha, cache_salt);
  return {sha.finish()};
}

BlockHash child_hash(const BlockHash& parent, std::span<const TokenId> tokens) {
  SLUICE_DCHECK(tokens.size() == static_cast<std::size_t>(kBlockTokens), "a block has 128 tokens");
  Sha256& sha = sha256();
  sha.add(parent.bytes.data(), parent.bytes.size());
  sha.add(tokens.data(), tokens.size_bytes());
  return {sha.finish()};
}

}  // namespace sluice
