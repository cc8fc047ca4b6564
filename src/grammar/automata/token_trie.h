// TokenTrie: the tokens of a vocabulary by their bytes. Masks are made by walking trie and grammar together, so that
// tokens with a common beginning are looked at once.
//
// Most tokens are plain: whole characters, none of which is a control character, a quote or a backslash. Where any text
// may stand, such as inside a JSON string, they are all allowed, and only the others are walked. Level i of the trie
// has the tokens that are not plain texts of at most kPlainLevels[i] characters, and a ready mask of those that are.
//
// Thread safety: const after it is made, but for what runs() keeps; may be used from any thread.
// Used by grammar and grammar/automata.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/threads/mutex.h"

namespace sluice {

inline constexpr std::array<int, 7> kPlainLevels = {0, 1, 2, 4, 8, 24, 255};
inline constexpr std::size_t kMostTokenRuns = 24;  // classes of bytes whose runs are kept: up to some 2 MB each

using ByteClass = std::bitset<256>;
class TokenRuns;

class TokenTrie {
 public:
  // A byte of the trie, in the order of a walk: the children of node i begin at i + 1, the sibling after it is at
  // nodes[i].end.
  struct Node {
    std::uint32_t end = 0;
    std::int32_t token = -1;  // the first of those with these bytes (next_same()); -1: none
    std::uint8_t byte = 0;
    std::uint64_t kinds = 0;  // byte_kind() of all bytes below it
  };
  struct Level {
    std::vector<std::uint32_t> plain;  // bit i mod 32 of word i / 32: token i is plain and short enough
    std::vector<Node> nodes;           // the other tokens; nodes[0] is the root
  };

  // `tokens[id]`: the bytes of a token; empty: it is never part of a text (special tokens, ids without a token).
  // `ends`: the tokens that end an answer.
  TokenTrie(std::span<const std::string_view> tokens, std::vector<std::int32_t> ends);
  ~TokenTrie();

  int vocab_size() const { return static_cast<int>(bytes_at_.size()) - 1; }
  std::size_t words() const { return (bytes_at_.size() - 1 + 31) / 32; }  // words of a mask
  const std::vector<std::int32_t>& ends() const { return ends_; }
  bool is_end(std::int32_t token) const;
  std::string_view bytes(std::int32_t token) const;  // empty: no part of a text
  std::size_t longest() const { return longest_; }   // bytes
  std::int32_t next_same(std::int32_t token) const { return next_same_[static_cast<std::size_t>(token)]; }

  // The longest token that this text begins with; -1: none.
  std::int32_t longest_in(std::string_view text) const;
  // All tokens that are part of a text, as bits.
  const std::vector<std::uint32_t>& texts() const { return texts_; }
  // Returns the tokens that have this byte, found by looking through all bytes: some 50 us.
  std::vector<std::int32_t> tokens_with(char byte) const;

  // The level for a place where texts of `plain_run` plain characters may stand.
  const Level& level(int plain_run) const;
  // Returns the tokens by how many bytes of the class they begin with. The results for the classes that were asked for
  // last are kept; others are made anew: some milliseconds.
  std::shared_ptr<const TokenRuns> runs(const ByteClass& bytes) const;
  std::size_t runs_bytes() const;  // bytes of the results that are kept

 private:
  std::vector<char> text_;
  std::vector<std::uint32_t> bytes_at_;  // [vocab + 1]
  std::vector<std::uint32_t> texts_;
  std::vector<std::int32_t> ends_, next_same_;
  std::size_t longest_ = 0;
  std::array<Level, kPlainLevels.size()> levels_;
  mutable Mutex runs_mutex_;
  // The one that was asked for last stands first.
  mutable std::vector<std::shared_ptr<const TokenRuns>> runs_ SLUICE_GUARDED_BY(runs_mutex_);
};

// One of 64 kinds of bytes, as a bit: ASCII's punctuation has one each, letters and digits some together.
std::uint64_t byte_kind(std::uint8_t byte);

// The number of characters of a plain text; 0: it is not plain, or too long.
int plain_characters(std::string_view text);

}  // namespace sluice
