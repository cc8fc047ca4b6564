// Used by bpe.h.
#include "text/bpe/bpe_characters.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/utf8.h"

namespace sluice {

BpeCharacters::BpeCharacters(const BpeVocabulary& vocabulary, Options options)
    : vocabulary_(&vocabulary), options_(options) {
  for (std::size_t c = 0; c < ascii_.size(); ++c) {
    const char character = static_cast<char>(c);
    ascii_[c] = vocabulary.find(std::string_view(&character, 1));
  }
  bytes_.fill(kNoToken);
  if (!options.byte_fallback) return;
  for (std::size_t byte = 0; byte < bytes_.size(); ++byte) {
    bytes_[byte] = vocabulary.find(fmt::format("<0x{:02X}>", byte));
  }
}

bool BpeCharacters::append_bytes(std::string_view character, std::vector<std::int32_t>& ids) const {
  const auto token = [&](char c) { return bytes_[static_cast<unsigned char>(c)]; };
  if (!std::ranges::all_of(character, [&](char c) { return token(c) != kNoToken; })) return false;
  for (const char c : character) ids.push_back(token(c));
  return true;
}

void BpeCharacters::append(std::string_view word, std::vector<std::int32_t>& ids) const {
  bool unknown_waits = false;  // pushed before the next known character, even after byte tokens, as `tokenizers` does
  const auto flush = [&] {
    if (unknown_waits) ids.push_back(options_.unknown);
    unknown_waits = false;
  };
  for (std::size_t position = 0; position < word.size();) {
    const auto first = static_cast<unsigned char>(word[position]);
    const std::size_t length = first < 0x80 ? 1 : decode_utf8(word.substr(position)).length;
    const std::string_view character = word.substr(position, length);
    position += length;
    const std::int32_t id = first < 0x80 ? ascii_[first] : vocabulary_->find(character);
    if (id != kNoToken) {
      flush();
      ids.push_back(id);
      continue;
    }
    if (append_bytes(character, ids) || options_.unknown == kNoToken) continue;
    if (!options_.fuse_unknown) flush();
    unknown_waits = true;
  }
  flush();
}

}  // namespace sluice
