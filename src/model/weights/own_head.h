// Handles a head in a checkpoint whose config makes the embedding the head (tie_word_embeddings).
// Thread safety: pure.
// Used by cli/commands, model, model/decoder, model/deepseek_mla and model/weights.
#pragma once

#include "config/model_config.h"
#include "files/checkpoint.h"

namespace sluice {

inline constexpr const char* kHeadName = "lm_head.weight";
inline constexpr const char* kEmbeddingName = "model.embed_tokens.weight";

// A checkpoint that holds both was trained with both: its config is corrected, as transformers does. A checkpoint that
// holds the head alone uses it as the embedding, too (the weight tables).
inline void untie_own_head(const Checkpoint& checkpoint, ModelConfig& config) {
  const bool both = checkpoint.find(kHeadName) != nullptr && checkpoint.find(kEmbeddingName) != nullptr;
  if (both) config.tie_word_embeddings = false;
}

}  // namespace sluice
