// LoadedModel: everything that a command needs to turn text into text.
#pragma once

#include <memory>

#include "config/generation_config.h"
#include "config/model_config.h"
#include "model/engine_setup.h"
#include "sluice/engine.h"
#include "sluice/status.h"
#include "text/chat/chat.h"
#include "text/tokenizer/tokenizer.h"

namespace sluice {

struct LoadedModel {
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<ChatEncoding> chat;  // null if the family has no chat encoding
  GenerationConfig generation;
  std::unique_ptr<Engine> engine;

  // The chat encoding, or an error that says what to do without one.
  Result<const ChatEncoding*> require_chat() const;
};

// Loads the tokenizer of the model's folder. A dummy model without one gets a stand-in, with a warning
// (text/tokenizer/stand_in_tokenizer.h).
Result<std::unique_ptr<Tokenizer>> load_tokenizer(const ModelOptions& model, const ModelConfig& config);

// Loads options.model.folder: the small files first, so that their errors do not wait for the weights.
Result<LoadedModel> load_model_for_text(const EngineSetup& options, const ChatEncodingOptions& chat);

}  // namespace sluice
