// The configuration of a GGUF model: its metadata, written as the official config.json of its family and then read as
// one, so that every check and default is the same whatever the container.
// Thread safety: pure functions.
// Used by cli/commands, config, config/gguf and model.
#pragma once

#include <boost/json/fwd.hpp>
#include <string>
#include <string_view>

#include "config/model_config.h"
#include "files/gguf/gguf_fields.h"
#include "files/gguf/gguf_file.h"
#include "files/gguf/gguf_names.h"
#include "sluice/status.h"

namespace sluice {

// Tensor shapes decide the vocabulary's size and whether the output is tied; end tokens are the tokenizer's eos, eot
// and eom; ids that no token has mean none.
Result<ModelConfig> gguf_model_config(const GgufModel& model);
// The same for the file at `path`.
Result<ModelConfig> load_gguf_config(const std::string& path);

// The parts of an architecture's write_config. Each copies a metadata key into a key of config.json.
class GgufConfigWriter {
 public:
  GgufConfigWriter(GgufFields& fields, boost::json::object& config) : fields_(fields), config_(config) {}

  // An integer from 0; required. Returns it.
  std::int64_t integer(std::string_view official, std::string_view key);
  // The same, if it is there.
  void optional_integer(std::string_view official, std::string_view key);
  // A finite number; required unless there is a default.
  double number(std::string_view official, std::string_view key);
  double number(std::string_view official, std::string_view key, double absent);

  // rope_theta, and rope_scaling for "rope.scaling.type" linear and yarn with its factor, original context and betas.
  // A factor without a type is linear, and "rope.scale_linear" is the factor's older name, as for llama.cpp. Returns
  // YaRN's object, to be completed, or null.
  boost::json::object* rope();

 private:
  GgufFields& fields_;
  boost::json::object& config_;
};

// GgufArchitecture: how GGUF files write models of one `general.architecture`, and what that corresponds to in the
// family's official checkpoints and config.json.
//
// A new architecture adds one file with a table of names and a function, and one line to the list in
// gguf_config.cc. Source: the names and layouts that llama.cpp writes (docs/formats/gguf.md).
// Thread safety: constants and pure functions.

struct GgufArchitecture {
  std::string_view name;  // general.architecture
  GgufNames tensors;
  // Writes the metadata as keys of the official config.json. `fields` reads keys below "<name>.".
  Status (*write_config)(const GgufModel& model, GgufFields& fields, boost::json::object& config);
};

extern const GgufArchitecture kGgufLlama, kGgufQwen2, kGgufQwen3, kGgufDeepSeek2, kGgufDeepSeek4;

// The architecture of a model, or an error that lists the known ones.
Result<const GgufArchitecture*> gguf_architecture(const GgufModel& model);
// The names of its tensors: what Checkpoint::open() asks for.
Result<GgufNames> gguf_names(const GgufModel& model);

}  // namespace sluice
