// Reads tokenizer.json and tokenizer_config.json into the parts of a Tokenizer, validated.
// Thread safety: pure functions.
#pragma once

#include <boost/json/fwd.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sluice/status.h"
#include "text/bpe.h"
#include "text/bpe_vocabulary.h"
#include "text/pretokenizer.h"
#include "text/tokenizer_added_tokens.h"
#include "text/tokenizer_normalizer.h"

namespace sluice {

struct TokenizerParts {
  std::unique_ptr<BpeVocabulary> vocabulary;  // base tokens and added tokens
  std::optional<Bpe> bpe;                     // points to the vocabulary
  TokenizerNormalizer normalizer;
  std::optional<Pretokenizer> pretokenizer;

  std::vector<AddedToken> added_tokens;
  std::unordered_map<std::int32_t, std::size_t> added_by_id;           // index into added_tokens
  std::unordered_map<std::string_view, std::size_t> added_by_content;  // the same
  AddedTokenMatcher raw_tokens;                                        // those found in the text as given
  AddedTokenMatcher normalized_tokens;                                 // those found in the normalized text

  std::vector<std::int32_t> prefix, suffix;  // what add_special_tokens puts around a text
  std::optional<std::int32_t> bos, eos;
};

// `config_text` may be empty.
Result<TokenizerParts> parse_tokenizer(std::string_view text, std::string_view config_text);
// The same from JSON that is parsed already; `config` may be null.
Result<TokenizerParts> parse_tokenizer(const boost::json::value& tokenizer, const boost::json::value* config);

}  // namespace sluice
