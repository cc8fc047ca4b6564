// The files besides tokenizer.json that can hold a model's vocabulary: tokenizer.model (SentencePiece) and
// tiktoken.model. They count only where there is no tokenizer.json.
//
// Thread safety: pure functions.
// Used by text/tokenizer/tokenizer.cc and tokenizer_companion_files.cc.
#pragma once

#include <boost/json/value.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "sluice/status.h"

namespace sluice {

// Returns whether `folder` has one of them.
bool has_other_tokenizer(const std::string& folder);

struct OtherTokenizer {
  boost::json::value tokenizer;  // as tokenizer.json
  boost::json::value config;     // tokenizer_config.json, with what the vocabulary's file adds
};
// Reads such a file in `folder`; none if there is none. `config_text` is tokenizer_config.json, or empty.
Result<std::optional<OtherTokenizer>> read_other_tokenizer(const std::string& folder, std::string_view config_text);
// The same of the file's bytes, for tests; `name` says which file it is.
Result<OtherTokenizer> parse_other_tokenizer(std::string_view name, std::string_view bytes,
                                             std::string_view config_text);

}  // namespace sluice
