// The tokenizer and the chat templates that a GGUF file carries in its metadata.
//
// The metadata are turned into the equivalent tokenizer.json and tokenizer_config.json, so that they are checked and
// read like these. Supported: byte-level BPE ("tokenizer.ggml.model" gpt2) with the pre-tokenizers
// ("tokenizer.ggml.pre") llama-bpe, qwen2, smollm, deepseek-llm and deepseek-v3.
// Thread safety: pure functions.
#pragma once

#include <boost/json/value.hpp>

#include "files/gguf_file.h"
#include "sluice/status.h"

namespace sluice {

struct GgufTokenizerJson {
  boost::json::value tokenizer;  // tokenizer.json
  boost::json::value config;     // tokenizer_config.json: special tokens, and the templates of chats
};
Result<GgufTokenizerJson> gguf_tokenizer_json(const GgufModel& model);

// The second of them alone.
Result<boost::json::value> gguf_tokenizer_config(const GgufModel& model);

}  // namespace sluice
