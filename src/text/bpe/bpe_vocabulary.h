// The tokens of a byte-level vocabulary: id to bytes and bytes to id.
//
// Ids may have gaps. Views that it returns live as long as it does and no token is added.
// Thread safety: a const object may be read from any thread.
// Used by cli/commands, text/bpe, text/tokenizer and text/vocabulary_files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

inline constexpr std::int32_t kNoToken = -1;
inline constexpr std::int32_t kMaxTokenId =
    (1 << 22) - 1;  // a sanity limit: sixteen times the largest known vocabulary

class BpeVocabulary {
 public:
  // Makes room, so that adding `tokens` tokens of `bytes` bytes together does not reallocate.
  void reserve(std::size_t tokens, std::size_t bytes);

  // Adds a token. `id` in [0, kMaxTokenId] must be free. With `findable`, find(bytes) gives it from now on, unless an
  // earlier token has the same bytes; without, it can only be read by its id. All tokens together stay below 4 GiB.
  void add(std::int32_t id, std::string_view bytes, bool findable);

  // The id of these bytes, else kNoToken.
  std::int32_t find(std::string_view bytes) const;
  bool has_id(std::int32_t id) const;
  // The bytes of a token; empty for an id that is not taken.
  std::string_view bytes(std::int32_t id) const;
  // One more than the largest id.
  std::int32_t size() const { return static_cast<std::int32_t>(tokens_.size()); }

 private:
  struct Token {
    static constexpr std::uint32_t kFree = ~std::uint32_t{0};
    std::uint32_t offset = kFree;  // kFree: no token has the id
    std::uint32_t length = 0;
  };
  struct Slot {
    std::uint32_t hash = 0;
    std::int32_t id = kNoToken;
  };
  void grow_table(std::size_t tokens);
  // The slot that holds these bytes, or the free one where they belong.
  std::size_t slot_of(std::string_view bytes, std::uint64_t hash) const;

  std::string arena_;          // the bytes of all tokens
  std::vector<Token> tokens_;  // by id
  std::vector<Slot> slots_;    // open addressing, a power of two, at most half full
  std::size_t findable_ = 0;   // slots in use
};

// The byte-level alphabet of GPT-2: Each byte is written as one printable character (a space as U+0120 "Ġ"), so that a
// vocabulary of arbitrary byte strings can be kept as JSON text. Thread safety: pure functions.

// Appends the bytes that `text` stands for and returns true; false, with `out` unchanged, if some character of it is
// not in the alphabet.
bool append_alphabet_bytes(std::string_view text, std::string& out);

// The character of one byte, as UTF-8.
std::string alphabet_character(unsigned char byte);

}  // namespace sluice
