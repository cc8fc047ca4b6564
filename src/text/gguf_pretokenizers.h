// The pre-tokenizers that GGUF files name ("tokenizer.ggml.pre"), as a tokenizer.json writes them.
// Source: the tokenizer.json files of the models after which they are named. Thread safety: pure functions.
#pragma once

#include <boost/json/value.hpp>
#include <string>
#include <string_view>

namespace sluice {

struct GgufPretokenizer {
  std::string_view name;
  boost::json::value (*pre_tokenizer)();  // the value of that key
  bool nfc = false;                       // the normalizer is NFC, else there is none
  bool ignore_merges = false;             // a word that is a token stays whole
  bool add_bos = false;                   // unless tokenizer.ggml.add_bos_token says otherwise
};

// Null for a name that is not known.
const GgufPretokenizer* find_gguf_pretokenizer(std::string_view name);
// The known names, split by ", ".
std::string gguf_pretokenizer_names();

}  // namespace sluice
