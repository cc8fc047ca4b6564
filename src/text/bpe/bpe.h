// Byte-pair encoding of one word (a piece that the pre-tokenizer cut). It starts from one token per byte (or per
// character, bpe_characters.h). Then it merges the adjacent pair of lowest rank, leftmost first among equals, until no
// pair has a rule.
//
// Time: O(n log n) in the length of the word; short words are found in a bounded cache.
// Thread safety: a const Bpe may be used from any thread; a BpeScratch by one at a time.
// Used by text/tokenizer/tokenizer_parser.h.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/status.h"
#include "text/bpe/bpe_characters.h"
#include "text/bpe/bpe_vocabulary.h"

namespace sluice {

// The memory that encode_word needs besides the model: the cache of recent words and buffers for long ones. It belongs
// to one Bpe.
class BpeScratch {
 private:
  friend class Bpe;

  static constexpr std::size_t kMaxCachedBytes = 24;
  static constexpr std::size_t kMaxCachedTokens = 9;
  static constexpr std::size_t kCachedWords = std::size_t{1} << 14;
  struct alignas(64) CachedWord {  // one cache line
    std::uint8_t length = 0;       // the word's bytes; 0 means empty
    std::uint8_t tokens = 0;
    std::array<char, kMaxCachedBytes> bytes{};
    std::array<std::int32_t, kMaxCachedTokens> ids{};
  };
  struct Symbol {  // a node of a linked list over the word
    std::int32_t id;
    std::int32_t previous, next;  // -1 at the ends
  };
  struct Candidate {  // a merge that was possible when it was noted
    std::uint32_t rank;
    std::int32_t left;    // index of the left symbol
    std::int32_t merged;  // the id it gives
  };

  std::vector<CachedWord> cache_;  // direct mapped by hash
  std::vector<Symbol> symbols_;
  std::vector<Candidate> heap_;
  std::string kept_;                 // the bytes of a word that are not dropped
  std::vector<std::int32_t> first_;  // the first symbols of a word of characters
};

// Returns whether every byte that occurs in UTF-8 has a token.
bool has_every_byte(const BpeVocabulary& vocabulary);

class Bpe {
 public:
  // `vocabulary` must outlive this object and keep the tokens it has. A byte without a token becomes `unknown`, or,
  // if that is kNoToken, is dropped: its neighbours become adjacent. With `ignore_merges`, a word that is itself a
  // token becomes that token without merging.
  static Bpe create(const BpeVocabulary& vocabulary, bool ignore_merges, std::size_t expected_merges,
                    std::int32_t unknown = kNoToken);

  // The same for a vocabulary of characters.
  static Bpe create(const BpeVocabulary& vocabulary, bool ignore_merges, std::size_t expected_merges,
                    const BpeCharacters& characters);

  // Adds the rule of the next rank, or of `rank`. If two rules are for one pair, the later counts.
  void add_merge(std::int32_t left, std::int32_t right, std::int32_t merged);
  void add_merge(std::int32_t left, std::int32_t right, std::int32_t merged, std::uint32_t rank);

  // Appends the ids of a word of at most 2^31 - 1 bytes.
  void encode_word(std::string_view word, BpeScratch& scratch, std::vector<std::int32_t>& out) const;

 private:
  struct Rule {
    std::uint64_t pair = kNoPair;
    std::uint32_t rank = 0;
    std::int32_t merged = kNoToken;
  };
  static constexpr std::uint64_t kNoPair = ~std::uint64_t{0};

  Bpe() = default;
  std::size_t slot_of(std::uint64_t pair) const;
  const Rule* find_rule(std::int32_t left, std::int32_t right) const;
  void grow_table(std::size_t rules);
  void encode_uncached(std::string_view word, BpeScratch& scratch, std::vector<std::int32_t>& out) const;
  // Appends the tokens that merging makes of `count` symbols, of which first(i) is the i-th.
  template <class First>
  void merge(std::size_t count, const First& first, BpeScratch& scratch, std::vector<std::int32_t>& out) const;
  template <class First>
  void merge_short(std::size_t count, const First& first, std::vector<std::int32_t>& out) const;
  template <class First>
  void merge_long(std::size_t count, const First& first, BpeScratch& scratch, std::vector<std::int32_t>& out) const;
  void note_candidate(std::int32_t left, BpeScratch& scratch) const;

  const BpeVocabulary* vocabulary_ = nullptr;
  bool ignore_merges_ = false;
  std::array<std::int32_t, 256> byte_tokens_{};
  bool drops_bytes_ = false;  // some byte of UTF-8 has no token
  std::optional<BpeCharacters> characters_;
  std::vector<Rule> rules_;  // open addressing by pair, a power of two, at most half full
  std::size_t rule_count_ = 0;
  std::uint32_t next_rank_ = 0;
};

}  // namespace sluice
