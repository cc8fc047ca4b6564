// The families of models: what a model's files are read by, one line each (docs/adding-a-model.md). What computes a
// family follows from the type of its part of the configuration (src/model/families.cc).
// Thread safety: constants.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "formats/chat.h"
#include "sluice/status.h"

namespace sluice {

struct ModelConfig;
class JsonFields;

struct ModelFamily {
  std::string_view architecture;  // in config.json
  std::string_view model_type;    // the same in the newer form
  // Reads what config.json says beyond what every family has, and sets ModelConfig::family.
  Status (*read_config)(JsonFields& fields, ModelConfig& config);
  // How the family writes conversations and calls tools, with the parser of its answers. Null: as the template says
  // that comes with the model, whose text also names the parsers (chat_parsers/chat_parsers.h).
  Result<std::unique_ptr<ChatEncoding>> (*own_chat_encoding)(const std::string& model_folder);
};

std::span<const ModelFamily> model_families();

}  // namespace sluice
