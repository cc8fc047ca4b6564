// The tokenizer of a random model, as the metadata of its GGUF file: byte-level BPE.
#pragma once

#include <string>

#include "config/model_config.h"
#include "files/gguf_writer.h"
#include "sluice/status.h"

namespace sluice {

// Adds the tokenizer.ggml keys of a vocabulary of config.vocab_size ids. From tokenizer.json in the folder `tokenizer`,
// filled up with unused tokens; without a folder (""), the config's begin and end tokens, the bytes, and pairs of
// letters. `pretokenizer`: its name in GGUF files.
Status write_vocabulary(const ModelConfig& config, const std::string& tokenizer, std::string_view pretokenizer,
                        GgufEntries& metadata);

}  // namespace sluice
