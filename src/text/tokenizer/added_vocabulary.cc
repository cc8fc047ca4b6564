// Used by text/vocabulary_files/tokenizer_companions.cc.
#include "text/tokenizer/added_vocabulary.h"

#include <algorithm>
#include <boost/json/value.hpp>

#include "text/bpe/bpe_vocabulary.h"

namespace sluice {

std::int32_t AddedVocabulary::place_of(std::string_view text) const {
  if (const auto known = ids_.find(text); known != ids_.end()) return known->second;
  const boost::json::value* id = vocabulary_.if_contains(text);
  // The parser of the model refuses any other.
  const bool is_id = id != nullptr && id->is_int64() && id->get_int64() >= 0 && id->get_int64() <= kMaxTokenId;
  if (is_id) return static_cast<std::int32_t>(id->get_int64());
  const auto size = static_cast<std::int32_t>(vocabulary_.size());
  return std::max(last_ + 1, size);
}

std::int32_t AddedVocabulary::add(const AddedToken& token) {
  const bool was_special = special_.contains(token.content);
  if (token.special) special_.insert(token.content);
  const std::int32_t id = place_of(token.content);
  // The pattern of a special token is the one that it had first; the others' patterns are all kept.
  if (!was_special && !token.normalized) raw_.insert(token.content);
  AddedToken& kept = tokens_[id] = token;
  kept.id = id;
  ids_.insert_or_assign(token.content, id);
  last_ = std::max(last_, id);
  return id;
}

std::int32_t AddedVocabulary::id_of(std::string_view text) const {
  const auto found = ids_.find(text);
  return found == ids_.end() ? kNoToken : found->second;
}

boost::json::array AddedVocabulary::to_json() const {
  boost::json::array list;
  list.reserve(tokens_.size());
  for (const auto& [id, token] : tokens_) {
    list.push_back({{"id", id},
                    {"content", token.content},
                    {"special", special_.contains(token.content)},
                    {"normalized", !raw_.contains(token.content)},
                    {"single_word", token.single_word},
                    {"lstrip", token.lstrip},
                    {"rstrip", token.rstrip}});
  }
  return list;
}

}  // namespace sluice
