// The families of models and the readers of their configuration, one line each (docs/dev/adding_a_model.md). The type
// of a family's part of the configuration decides the code that computes it (src/model/families.cc). Without a
// template, its model type decides how it writes conversations (src/text/chat/chat.cc). Thread safety: constants.
// Used by model_config.cc.
#pragma once

#include <span>
#include <string_view>

#include "sluice/status.h"

namespace sluice {

struct ConfigTable;
struct ModelConfig;
class ConfigReader;

struct ModelFamily {
  std::string_view architecture;  // in config.json; without its end "ForCausalLM", "Model" means the same
  std::string_view model_type;    // decides, as in the transformers library
  const ConfigTable* keys;        // keys of its config.json
  // Reads the family's own keys of config.json, and sets ModelConfig::family.
  Status (*read_config)(ConfigReader& reader, ModelConfig& config);
  std::string_view other_model_type = {};    // another name of it
  std::string_view other_architecture = {};  // too
};

std::span<const ModelFamily> model_families();

}  // namespace sluice
