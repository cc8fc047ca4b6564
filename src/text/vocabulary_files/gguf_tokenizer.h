// The tokenizer and the chat templates that a GGUF file carries in its metadata.
//
// The metadata are turned into the equivalent tokenizer.json and tokenizer_config.json, so that they are checked and
// read like these. Supported: SentencePiece's BPE ("tokenizer.ggml.model" llama), and byte-level BPE (gpt2) with the
// pre-tokenizers ("tokenizer.ggml.pre") of the table at the end.
// Thread safety: pure functions.
// Used by text/chat/templates, text/tokenizer and text/vocabulary_files.
#pragma once

#include <boost/json/value.hpp>
#include <string>
#include <string_view>

#include "files/gguf/gguf_file.h"
#include "sluice/status.h"

namespace sluice {

struct GgufTokenizerJson {
  boost::json::value tokenizer;  // tokenizer.json, with one key more, "spare_tokens": ids that no text becomes
  boost::json::value config;     // tokenizer_config.json: special tokens, and the templates of chats
};
Result<GgufTokenizerJson> gguf_tokenizer_json(const GgufModel& model);

// The first of a file of SentencePiece's kind: Special tokens are found in the text as they are written, and each part
// between them begins with a space ("add_space_prefix"), as in llama.cpp.
Result<boost::json::value> gguf_sentencepiece_json(const GgufModel& model);

// The second of them alone.
Result<boost::json::value> gguf_tokenizer_config(const GgufModel& model);

// The pre-tokenizers that GGUF files name ("tokenizer.ggml.pre"), as a tokenizer.json writes them.
// Source: the tokenizer.json files of the models after which they are named. Thread safety: pure functions.

struct GgufPretokenizer {
  std::string_view name = {};
  boost::json::value (*pre_tokenizer)() = nullptr;  // the value of that key
  bool nfc = false;                                 // the normalizer is NFC, else there is none
  bool ignore_merges = false;                       // a word that is a token stays whole
  bool add_bos = false;                             // unless tokenizer.ggml.add_bos_token says otherwise
};

// Null for a name that is not known. Files that name none are "default".
const GgufPretokenizer* find_gguf_pretokenizer(std::string_view name);
// The known names, split by ", ".
std::string gguf_pretokenizer_names();

}  // namespace sluice
