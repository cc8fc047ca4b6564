// GenerationConfig: generation_config.json, the author's sampling defaults.
// Errors say what was expected and found for which key. Thread safety: plain values.
// Used by cli/commands/text_commands.h, cli/loaded_model.h, engine/engine_impl.h and engine/load.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/status.h"

namespace sluice {

// Keys that the file does not have are without value.
struct GenerationConfig {
  std::optional<bool> do_sample;     // false: greedy unless the request says otherwise
  std::optional<float> temperature;  // from here on in the ranges of sluice/sampling.h
  std::optional<float> top_p;
  std::optional<int> top_k;
  std::optional<float> min_p;
  std::optional<float> presence_penalty, frequency_penalty, repetition_penalty;
  std::vector<std::int32_t> eos_token_ids;
  // Keys that ask for unsupported features ("no_repeat_ngram_size"), each with its value: "typical_p 0.9".
  std::vector<std::string> unsupported;

  bool has_penalties() const;
};

Result<GenerationConfig> parse_generation_config(std::string_view json, std::string_view what);
// Loads it from a model's folder, or from the folder of its config.json. Without the file there are no values.
Result<GenerationConfig> load_generation_config(const std::string& model);

// Token ids in configuration files, where an id may be written as one integer or as a list.

class JsonFields;

// The ids below `key`, each from 0 to `max`; none when the key is absent or null. A failure goes into `fields`.
// Ids that mean none, -1 and 4294967295, are left out with a warning.
std::vector<std::int32_t> read_token_ids(JsonFields& fields, std::string_view key, std::int32_t max);

}  // namespace sluice
