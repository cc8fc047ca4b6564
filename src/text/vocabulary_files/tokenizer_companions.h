// The companion files of a tokenizer.json, and their effect on it.
//
// tokenizer_config.json, special_tokens_map.json and added_tokens.json name special tokens, add tokens and change the
// flags of tokens in tokenizer.json; vocab.json and merges.txt stand in for a tokenizer.json that is missing. The files
// count in the order in which they do for `transformers` 5. They are turned into one equivalent tokenizer.json and one
// tokenizer_config.json, which their parser reads (tokenizer_parser.h).
//
// Thread safety: pure functions; values of JSON are plain values.
// Used by cli, text/chat/templates, text/tokenizer and text/vocabulary_files.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "sluice/status.h"

namespace sluice {

// The class of the library that a folder's files choose. It decides which tokens are the default where the files name
// none, and for some by what a text is cut, whatever tokenizer.json says.
enum class TokenizerClass : std::uint8_t { kBackend, kLlama, kQwen2, kGpt2 };

struct TokenizerFiles {
  std::string folder;
  std::string model_type;  // config.json's
  std::string class_name;  // as the files write it; "" where they do not
  TokenizerClass kind = TokenizerClass::kBackend;
  bool is_converted = false;     // `tokenizer` is made of vocab.json and merges.txt
  boost::json::value tokenizer;  // tokenizer.json
  boost::json::object config;    // tokenizer_config.json; empty where the folder has none, as the next two
  boost::json::object special_tokens_map;
  boost::json::object added_tokens;
};

// Returns whether the folder has a tokenizer.json, or vocab.json and merges.txt.
bool has_json_tokenizer(const std::string& folder);
// Returns whether the folder has a tokenizer that Tokenizer::load reads, in whatever form.
bool has_tokenizer_files(const std::string& folder);

// Reads them. Without `with_vocabulary` only the small ones: enough for special_tokens().
Result<TokenizerFiles> read_tokenizer_files(const std::string& folder, bool with_vocabulary = true);

// The special tokens by their names, each a text: "bos_token": "<s>". In the order in which the library adds them to a
// vocabulary; "additional_special_tokens" is a list, and comes last.
Result<boost::json::object> special_tokens(const TokenizerFiles& files);

struct MergedTokenizer {
  boost::json::value tokenizer;  // a tokenizer.json with every token
  boost::json::value config;     // bos_token and eos_token, and whether a text gets them
};
Result<MergedTokenizer> merge_tokenizer_files(TokenizerFiles files);

}  // namespace sluice
