// BlockChain: the hashes of a sequence's full blocks, and which of its window pages are worth keeping. Grows with the
// tokens. Owns its values; thread safety: one thread at a time.
#pragma once

#include <span>
#include <vector>

#include "cache/block_hash.h"

namespace sluice {

class BlockChain {
 public:
  explicit BlockChain(const BlockHash& root) : root_(root) {}

  // `tokens`: all of the sequence so far; those seen before must not have changed.
  void extend(std::span<const TokenId> tokens);

  const BlockHash& root() const { return root_; }
  int blocks() const { return static_cast<int>(hashes_.size()); }
  std::span<const BlockHash> hashes() const { return hashes_; }
  const BlockHash& operator[](int block) const { return hashes_[static_cast<std::size_t>(block)]; }

  // Blocks whose window pages stay cached after the sequence has moved on (cache/retention.h); ascending.
  void set_kept_blocks(std::vector<int> blocks) { kept_ = std::move(blocks); }
  bool keeps(int block) const;

 private:
  BlockHash root_;
  std::vector<BlockHash> hashes_;
  std::vector<int> kept_;
};

}  // namespace sluice
