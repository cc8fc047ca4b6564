// The names of blocks, and a sequence's chain of them.
// Used by cache/prefix_cache.h, engine/runner/step_span.h, engine/step/sequence_table.h and page_pool.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "base/index_types.h"

namespace sluice {

// BlockHash: the name of the state after a block of 128 tokens. A chain: SHA-256 of the parent's hash and the block's
// token ids, so equal hashes mean equal tokens from the start of the sequence. The chain begins at a root made of the
// numerics profile and the request's cache_salt, so caches of two profiles or two tenants never mix, and no client can
// construct a prompt whose blocks are mistaken for another's.
//
// Cost: about 0.4 us a block with the CPU's SHA instructions. Thread safety: hash functions may run on any thread.

struct BlockHash {
  std::array<std::uint8_t, 32> bytes{};

  bool operator==(const BlockHash&) const = default;
  // Any eight bytes of a SHA-256 are as good as a hash of it.
  std::uint64_t word() const {
    std::uint64_t w = 0;
    std::memcpy(&w, bytes.data(), sizeof(w));
    return w;
  }
};

struct BlockHashWord {
  std::size_t operator()(const BlockHash& hash) const { return static_cast<std::size_t>(hash.word()); }
};

BlockHash root_hash(std::string_view profile, std::string_view cache_salt);
// tokens: exactly one block.
BlockHash child_hash(const BlockHash& parent, std::span<const TokenId> tokens);

// BlockChain: the hashes of a sequence's full blocks, and which of its window pages are worth keeping. Grows with the
// tokens. Owns its values; thread safety: one thread at a time.

class BlockChain {
 public:
  explicit BlockChain(const BlockHash& root) : root_(root) {}

  // `tokens` are all of the sequence so far; the earlier ones must not have changed.
  void extend(std::span<const TokenId> tokens);

  const BlockHash& root() const { return root_; }
  int blocks() const { return static_cast<int>(hashes_.size()); }
  std::span<const BlockHash> hashes() const { return hashes_; }
  const BlockHash& operator[](int block) const { return hashes_[static_cast<std::size_t>(block)]; }

  // Blocks whose window pages stay cached after the sequence has moved on (cache/pages/retention.h); ascending.
  void set_kept_blocks(std::vector<int> blocks) { kept_ = std::move(blocks); }
  bool keeps(int block) const;

 private:
  BlockHash root_;
  std::vector<BlockHash> hashes_;
  std::vector<int> kept_;
};

}  // namespace sluice
