// TokenRuns: the tokens of a trie by how many bytes of a class they begin with. If a grammar counts characters, the
// places in front of n and of n + 1 of them allow nearly the same tokens. Tokens that are all of the class differ by
// their length; tokens that leave it differ by the length at which they do. Both are kept by length here, so a place of
// a count takes a few lists and not a walk of its own (TokenMasks).
//
// Node numbers are those of the trie's level 0. Thread safety: const after it is made.
// Used by run_masks.h and token_trie.cc.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "grammar/automata/token_trie.h"

namespace sluice {

// Numbers by length.
class ByLength {
 public:
  using Found = std::vector<std::pair<std::uint32_t, std::uint32_t>>;  // (length, number)

  ByLength() = default;
  explicit ByLength(const Found& found);

  std::span<const std::uint32_t> of(std::size_t length) const;
  std::span<const std::uint32_t> up_to(std::size_t length) const;
  bool empty() const { return items_.empty(); }
  std::size_t lengths() const { return begins_.empty() ? 0 : begins_.size() - 1; }  // all are below
  std::size_t bytes() const { return 4 * (items_.size() + begins_.size()); }

 private:
  std::vector<std::uint32_t> items_, begins_;  // length n has items_[begins_[n]] to items_[begins_[n + 1]]
};

class TokenRuns {
 public:
  TokenRuns(const TokenTrie& trie, const ByteClass& bytes);

  const ByteClass& bytes() const { return bytes_; }
  // Sets the bits of the tokens of at most `length` bytes that are all of the class.
  void add_whole(std::size_t length, std::span<std::uint32_t> words) const;
  // The nodes that have others below them, by the length of the path to them, all of the class.
  const ByLength& inside() const { return inside_; }
  // The nodes of this byte, which is not of the class, by the length of the path before it, which is.
  const ByLength& exits(std::uint8_t byte) const { return exits_[byte]; }

  std::size_t kept_bytes() const;

 private:
  const ByteClass bytes_;
  std::vector<std::vector<std::uint32_t>> whole_;  // [length]: masks of the tokens up to it, for the first lengths
  ByLength longer_;                                // tokens beyond those
  ByLength inside_;
  std::array<ByLength, 256> exits_;
};

}  // namespace sluice
