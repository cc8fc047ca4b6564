// The families of models, and what reads their configuration, one line each (docs/dev/adding_a_model.md). Which code
// computes a family follows from the type of its part of the configuration (src/model/families.cc); how it writes
// conversations, if no template says so, from its model type (src/text/chat/chat.cc). Thread safety: constants.
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
  const ConfigTable* keys;        // what its config.json may say
  // Reads what config.json says beyond what every family has, and sets ModelConfig::family.
  Status (*read_config)(ConfigReader& reader, ModelConfig& config);
  std::string_view other_model_type = {};    // another name of it
  std::string_view other_architecture = {};  // too
};

std::span<const ModelFamily> model_families();

}  // namespace sluice
