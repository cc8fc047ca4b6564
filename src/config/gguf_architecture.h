// GgufArchitecture: how GGUF files write models of one `general.architecture`, and what that corresponds to in the
// family's official checkpoints and config.json.
//
// A new architecture adds one file with a table of names and a function, and one line to the list in
// gguf_architecture.cc. Source: the names and layouts that llama.cpp writes (docs/formats/gguf.md).
// Thread safety: constants and pure functions.
#pragma once

#include <boost/json/fwd.hpp>
#include <string_view>

#include "files/gguf_fields.h"
#include "files/gguf_file.h"
#include "files/gguf_names.h"
#include "sluice/status.h"

namespace sluice {

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
