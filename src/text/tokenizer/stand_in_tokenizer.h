// A tokenizer for a model whose own is not at hand (random weights for a bare config.json). It has begin and end tokens
// as the config names them, then the 256 bytes on the lowest ids that are left; texts are encoded to these bytes alone.
// Every other id is read as a space and its number: " 4711".
// Used by cli/loaded_model.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "sluice/status.h"
#include "text/tokenizer/tokenizer.h"

namespace sluice {

// bos_id: -1 for none. Fails if the vocabulary has no room for the bytes.
Result<std::unique_ptr<Tokenizer>> stand_in_tokenizer(int vocab_size, std::int32_t bos_id,
                                                      std::span<const std::int32_t> eos_ids);

}  // namespace sluice
