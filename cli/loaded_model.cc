#include "cli/loaded_model.h"

#include <utility>

#include "config/model_config.h"
#include "engine/engine_impl.h"

namespace sluice {

Result<const ChatEncoding*> LoadedModel::require_chat() const {
  if (chat != nullptr) return chat.get();
  return invalid_argument(
      "this model has no chat template; --chat-template FILE brings one, and `sluice run --raw` completes plain text");
}

Result<LoadedModel> load_model_for_text(const EngineSetup& options, const ChatEncodingOptions& chat_options) {
  LoadedModel model;
  SLUICE_ASSIGN_OR_RETURN(const ModelConfig config, load_model_config(options.model.folder));
  SLUICE_ASSIGN_OR_RETURN(model.tokenizer, Tokenizer::load(options.model.folder));
  SLUICE_ASSIGN_OR_RETURN(model.generation, load_generation_config(options.model.folder));
  Result<std::unique_ptr<ChatEncoding>> chat =
      load_chat_encoding(config.model_type, options.model.folder, chat_options);
  if (chat.ok()) {
    model.chat = std::move(chat).value();
  } else if (chat.status().code() != StatusCode::kNotFound) {
    return chat.status();
  }
  SLUICE_ASSIGN_OR_RETURN(model.engine, start_engine(options));
  return model;
}

}  // namespace sluice
