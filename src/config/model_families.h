// The families of models, and what reads their configuration, one line each (docs/adding-a-model.md). Which code
// computes a family follows from the type of its part of the configuration (src/model/families.cc); how it writes
// conversations, if no template says so, from its model type (src/text/chat.cc). Thread safety: constants.
#pragma once

#include <span>
#include <string_view>

#include "sluice/status.h"

namespace sluice {

struct ModelConfig;
class JsonFields;

struct ModelFamily {
  std::string_view architecture;  // in config.json
  std::string_view model_type;    // the same in the newer form
  // Reads what config.json says beyond what every family has, and sets ModelConfig::family.
  Status (*read_config)(JsonFields& fields, ModelConfig& config);
};

std::span<const ModelFamily> model_families();

}  // namespace sluice
