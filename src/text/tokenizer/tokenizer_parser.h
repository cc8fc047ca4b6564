// Reads tokenizer.json and tokenizer_config.json into the parts of a Tokenizer, validated.
// Thread safety: pure functions.
// Used by tokenizer.cc, tokenizer_bpe_parser.cc and tokenizer_template.cc.
#pragma once

#include <boost/json/fwd.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sluice/status.h"
#include "text/bpe/bpe.h"
#include "text/bpe/bpe_vocabulary.h"
#include "text/pretokenizer/pretokenizer.h"
#include "text/tokenizer/tokenizer_added_tokens.h"
#include "text/tokenizer/tokenizer_decoder.h"
#include "text/tokenizer/tokenizer_normalizer.h"

namespace sluice {

struct TokenizerParts {
  std::unique_ptr<BpeVocabulary> vocabulary;  // base tokens and added tokens
  std::optional<Bpe> bpe;                     // points to the vocabulary
  TokenizerNormalizer normalizer;
  std::optional<Pretokenizer> pretokenizer;
  TokenDecoder decoder;
  // The text that each token stands for, if the vocabulary is one of characters; else it is null, and a token stands
  // for its bytes in `vocabulary`.
  std::unique_ptr<BpeVocabulary> spellings;
  // The same of tokens that are something else as the first of a text.
  std::unordered_map<std::int32_t, std::string> first_spellings;

  std::vector<AddedToken> added_tokens;
  std::unordered_map<std::int32_t, std::size_t> added_by_id;           // index into added_tokens
  std::unordered_map<std::string_view, std::size_t> added_by_content;  // the same
  std::unordered_map<std::int32_t, std::string> added_texts;           // the texts that the normalizer changes
  AddedTokenMatcher raw_tokens;                                        // are found in the text as given
  AddedTokenMatcher normalized_tokens;                                 // are found in the normalized text

  std::vector<std::int32_t> prefix, suffix;  // what add_special_tokens puts around a text
  std::optional<std::int32_t> bos, eos;
};

// `config_text` may be empty.
Result<TokenizerParts> parse_tokenizer(std::string_view text, std::string_view config_text);
// The same from JSON that is parsed already; `config` may be null.
Result<TokenizerParts> parse_tokenizer(const boost::json::value& tokenizer, const boost::json::value* config);

// The post-processor of a tokenizer.json, as far as it concerns a single text: the tokens put before and after it.
// Thread safety: pure functions.

// Reads the value of the key "post_processor": null, ByteLevel (which changes no ids), TemplateProcessing,
// RobertaProcessing, BertProcessing, or a Sequence of these, and appends to `prefix` and `suffix`. `what` names the
// value in messages; `is_token` says which ids exist.
Status parse_post_processor(const boost::json::value& value, const std::string& what,
                            const std::function<bool(std::int32_t)>& is_token, std::vector<std::int32_t>& prefix,
                            std::vector<std::int32_t>& suffix);

// Reads the "model" of a tokenizer.json: a BPE vocabulary, of bytes or of characters, and its merges. A key
// "merge_ranks", which only this program writes, gives each merge its rank, else they have their places'.
// Thread safety: pure functions.

struct BpeParts {
  std::unique_ptr<BpeVocabulary> vocabulary;
  std::optional<Bpe> bpe;  // points to the vocabulary
  // Tokens written with characters outside the byte alphabet ("<｜User｜>"): no merge can reach them. The keys are
  // views into the JSON value.
  std::unordered_map<std::string_view, std::int32_t> literal_ids;
};

// `what` names the value in messages. With `byte_level` the vocabulary is written in the alphabet of bytes.
Result<BpeParts> parse_bpe_model(const boost::json::value& value, bool byte_level, const std::string& what);

}  // namespace sluice
