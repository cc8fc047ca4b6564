// The special tokens that the files of a tokenizer name, each with the flags that they give it.
// Thread safety: pure functions.
// Used by text/vocabulary_files/tokenizer_companions.cc.
#pragma once

#include <boost/json/value.hpp>
#include <string>
#include <vector>

#include "sluice/status.h"
#include "text/tokenizer/tokenizer_added_tokens.h"
#include "text/vocabulary_files/tokenizer_companions.h"

namespace sluice {

struct NamedToken {
  std::string name;  // "bos_token"
  AddedToken token;
  bool by_text = true;    // the files write it as a string, without flags
  bool by_class = false;  // the class names it, not the files
};

struct SpecialTokens {
  std::vector<NamedToken> named;  // in the library's order: bos, eos, unk, sep, pad, cls, mask, and others
  std::vector<NamedToken> extra;  // additional_special_tokens, without names

  // Returns whether a name or the list has this text.
  bool has_name_of(const std::string& text) const;
};

Result<SpecialTokens> read_special_tokens(const TokenizerFiles& files);

// A token as files write it: a text, which is special then, or an object with the key "content" and the flags.
Result<AddedToken> read_token(const boost::json::value& value, const std::string& what, bool special);

}  // namespace sluice
