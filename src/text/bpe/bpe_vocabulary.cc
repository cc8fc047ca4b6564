// Used by cli/commands, text/bpe, text/tokenizer and text/vocabulary_files.
#include "text/bpe/bpe_vocabulary.h"

#include <bit>
#include <utility>

#include "base/check.h"
#include "text/bpe/bpe_hash.h"

namespace sluice {

void BpeVocabulary::reserve(std::size_t tokens, std::size_t bytes) {
  arena_.reserve(bytes);
  tokens_.reserve(tokens);
  grow_table(tokens);
}

void BpeVocabulary::add(std::int32_t id, std::string_view bytes, bool findable) {
  SLUICE_CHECK(id >= 0 && id <= kMaxTokenId && !has_id(id), "the id must be in range and free");
  const auto index = static_cast<std::size_t>(id);
  if (index >= tokens_.size()) tokens_.resize(index + 1);
  SLUICE_CHECK(bytes.size() < Token::kFree - arena_.size(), "all tokens together stay below 4 GiB");
  tokens_[index] = {static_cast<std::uint32_t>(arena_.size()), static_cast<std::uint32_t>(bytes.size())};
  arena_.append(bytes);
  if (!findable) return;
  if (2 * (findable_ + 1) > slots_.size()) grow_table(2 * findable_ + 16);
  const std::uint64_t hash = hash_bytes(bytes);
  Slot& slot = slots_[slot_of(bytes, hash)];
  if (slot.id != kNoToken) return;
  slot = {static_cast<std::uint32_t>(hash >> 32), id};
  ++findable_;
}

std::int32_t BpeVocabulary::find(std::string_view bytes) const {
  if (slots_.empty()) return kNoToken;
  return slots_[slot_of(bytes, hash_bytes(bytes))].id;
}

bool BpeVocabulary::has_id(std::int32_t id) const {
  return id >= 0 && id < size() && tokens_[static_cast<std::size_t>(id)].offset != Token::kFree;
}

std::string_view BpeVocabulary::bytes(std::int32_t id) const {
  if (!has_id(id)) return {};
  const Token& token = tokens_[static_cast<std::size_t>(id)];
  return {arena_.data() + token.offset, token.length};
}

void BpeVocabulary::grow_table(std::size_t tokens) {
  const std::size_t wanted = std::bit_ceil(2 * tokens + 2);
  if (wanted <= slots_.size()) return;
  const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(wanted));
  for (const Slot& slot : old) {
    if (slot.id == kNoToken) continue;
    const std::string_view token = bytes(slot.id);
    slots_[slot_of(token, hash_bytes(token))] = slot;
  }
}

std::size_t BpeVocabulary::slot_of(std::string_view wanted, std::uint64_t hash) const {
  const std::size_t mask = slots_.size() - 1;
  const auto tag = static_cast<std::uint32_t>(hash >> 32);
  std::size_t index = hash & mask;
  while (slots_[index].id != kNoToken && (slots_[index].hash != tag || bytes(slots_[index].id) != wanted)) {
    index = (index + 1) & mask;
  }
  return index;
}

}  // namespace sluice
