// The first symbols of a word in a vocabulary of characters, as SentencePiece has it: one token a character. A
// character without a token becomes the tokens of its bytes ("<0xE2>"), else the unknown token, else nothing.
//
// Thread safety: a const object may be used from any thread.
// Used by bpe.h.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/bpe/bpe_vocabulary.h"

namespace sluice {

class BpeCharacters {
 public:
  struct Options {
    bool byte_fallback = false;
    bool fuse_unknown = false;        // neighbours that are unknown become one token
    std::int32_t unknown = kNoToken;  // kNoToken: they are dropped
  };
  // `vocabulary` must outlive this object and keep the tokens it has.
  BpeCharacters(const BpeVocabulary& vocabulary, Options options);

  // Appends the tokens of `word`, which is valid UTF-8.
  void append(std::string_view word, std::vector<std::int32_t>& ids) const;

 private:
  bool append_bytes(std::string_view character, std::vector<std::int32_t>& ids) const;

  const BpeVocabulary* vocabulary_;
  Options options_;
  std::array<std::int32_t, 128> ascii_{};  // the tokens of these characters
  std::array<std::int32_t, 256>
      bytes_{};  // the tokens of "<0x00>" to "<0xFF>"; kNoToken throughout without byte_fallback
};

}  // namespace sluice
