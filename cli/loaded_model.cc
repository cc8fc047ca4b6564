#include "cli/loaded_model.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>
#include <vector>

#include "base/log.h"
#include "engine/engine_impl.h"
#include "files/model_path.h"
#include "text/tokenizer/stand_in_tokenizer.h"
#include "text/vocabulary_files/tokenizer_companions.h"

namespace sluice {

Result<const ChatEncoding*> LoadedModel::require_chat() const {
  if (chat != nullptr) return chat.get();
  return invalid_argument(
      "this model has no chat template; --chat-template FILE brings one, and `sluice run --raw` completes plain text");
}

namespace {

// Returns the folder in which the small files of a model lie.
std::string folder_of(const std::string& model) {
  std::error_code error;
  return is_config_path(model) ? std::filesystem::absolute(model, error).parent_path().string() : model;
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> load_tokenizer(const ModelOptions& model, const ModelConfig& config) {
  const std::string folder = folder_of(model.folder);
  const bool has_one = is_gguf_path(folder) || has_tokenizer_files(folder);
  if (has_one) return Tokenizer::load(folder);
  if (model.load_format != LoadFormat::kDummy) {
    return not_found(
        fmt::format("{}: expected a tokenizer.json (or tokenizer.model, tiktoken.model) beside config.json, found "
                    "none; without one only token ids work: sluice logits",
                    folder));
  }
  log_warning(
      "{}: has no tokenizer.json beside it: every byte of a text is a token, and any other id of an answer is printed "
      "as its number",
      model.folder);
  return stand_in_tokenizer(config.vocab_size, config.bos_token_id, config.eos_token_ids);
}

namespace {

// Returns whether only the model's own files say how conversations are written.
bool is_of_the_folder(const ChatEncodingOptions& options) {
  return options.template_file.empty() && options.parsers.tool_call.empty() && options.parsers.reasoning.empty();
}

// Drops defaults of requests that cannot be kept, and reports each once.
void apply_generation_config(LoadedModel& model) {
  GenerationConfig& generation = model.generation;
  if (!generation.unsupported.empty()) {
    log_warning("generation_config.json: not supported, and left out of answers: {}",
                fmt::join(generation.unsupported, ", "));
  }
  if (!generation.has_penalties() || model.engine->takes_penalties()) return;
  log_warning(
      "generation_config.json: presence, frequency and repetition penalties are not supported on this device, and are "
      "left out of answers; --device cpu has them");
  generation.presence_penalty = generation.frequency_penalty = generation.repetition_penalty = std::nullopt;
}

}  // namespace

Result<LoadedModel> load_model_for_text(const EngineSetup& options, const ChatEncodingOptions& chat_options) {
  LoadedModel model;
  SLUICE_ASSIGN_OR_RETURN(const ModelConfig config, load_model_config(options.model.folder));
  SLUICE_ASSIGN_OR_RETURN(model.tokenizer, load_tokenizer(options.model, config));
  const std::string folder = folder_of(options.model.folder);
  SLUICE_ASSIGN_OR_RETURN(model.generation, load_generation_config(folder));
  Result<std::unique_ptr<ChatEncoding>> chat = load_chat_encoding(config.model_type, folder, chat_options);
  if (chat.ok()) {
    model.chat = std::move(chat).value();
  } else if (is_of_the_folder(chat_options) && chat.status().code() == StatusCode::kInvalidArgument) {
    log_warning("{}; raw completions work without it, and conversations are refused", chat.status().message());
    model.chat = unusable_chat(chat.status(), folder);
  } else if (chat.status().code() != StatusCode::kNotFound) {
    return chat.status();
  }
  std::vector<std::int32_t> ends;
  if (const auto id = model.tokenizer->eos_id()) ends.push_back(*id);
  SLUICE_ASSIGN_OR_RETURN(model.engine, start_engine(options, model.generation, ends));
  apply_generation_config(model);
  return model;
}

}  // namespace sluice
