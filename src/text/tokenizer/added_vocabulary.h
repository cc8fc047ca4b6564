// AddedVocabulary: the tokens that are added to a vocabulary one after the other, as the `tokenizers` package keeps
// them. A token that comes again changes the flags of the first, and one without a place gets the next free id.
//
// Thread safety: none needed, a local object.
// Used by text/vocabulary_files/tokenizer_companions.cc.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "text/tokenizer/tokenizer_added_tokens.h"

namespace sluice {

class AddedVocabulary {
 public:
  // `vocabulary` gives each token of the model its id; it must outlive this object.
  explicit AddedVocabulary(const boost::json::object& vocabulary) : vocabulary_(vocabulary) {}

  // Adds a token; its id is not read. A text that the vocabulary has becomes that token. Returns the id.
  std::int32_t add(const AddedToken& token);
  bool contains(std::string_view text) const { return ids_.contains(text); }
  // The id of an added token; kNoToken for any other text.
  std::int32_t id_of(std::string_view text) const;

  // Returns the added tokens as a tokenizer.json lists them, by id.
  boost::json::array to_json() const;

 private:
  std::int32_t place_of(std::string_view text) const;

  const boost::json::object& vocabulary_;
  std::map<std::string, std::int32_t, std::less<>> ids_;
  std::map<std::int32_t, AddedToken> tokens_;   // what was last said of each
  std::set<std::string, std::less<>> special_;  // texts of tokens that were ever special
  std::set<std::string, std::less<>> raw_;      // texts that are found in the text as given
  std::int32_t last_ = -1;                      // the largest id of an added token
};

}  // namespace sluice
