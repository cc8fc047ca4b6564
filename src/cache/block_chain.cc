#include "cache/block_chain.h"

#include <algorithm>

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

}  // namespace sluice
