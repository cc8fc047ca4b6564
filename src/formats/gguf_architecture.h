// GgufArchitecture: how the models of one `general.architecture` are written in GGUF files, and what that is in the
// official checkpoints and config.json of the family.
//
// A new architecture adds one file with a table of names and a function, and one line to the list in
// gguf_architecture.cc. Source: the names and layouts that llama.cpp writes (docs/formats/gguf.md).
// Thread safety: constants and pure functions.
#pragma once

#include <boost/json/fwd.hpp>
#include <span>
#include <string_view>

#include "formats/gguf_fields.h"
#include "formats/gguf_file.h"
#include "sluice/status.h"

namespace sluice {

// How a tensor's elements lie, compared with the official tensor of the same numbers.
enum class GgufLayout {
  kSame,
  // [experts, out, in]: the official tensors are one an expert, with "{}" in their name.
  kExperts,
  // The rows of a query or key head in the order 0, d/2, 1, d/2 + 1, ... (rotated pairs side by side).
  kInterleavedQueries,
  kInterleavedKeys,
  // The two halves of kv_b: [heads, rank, nope] (transposed) and [heads, v, rank]. The official tensor, which both
  // name, has for each head its nope rows, then its v rows.
  kSplitKeys,
  kSplitValues,
  // No weight: read with the config.
  kOfConfig,
};

// Names without the prefix of the layer.
struct GgufName {
  std::string_view gguf;
  std::string_view official;
  GgufLayout layout = GgufLayout::kSame;
};

struct GgufArchitecture {
  std::string_view name;             // general.architecture
  std::string_view official_prefix;  // of layer tensors, "{}" for the number ("model.layers.{}."); "blk.{}." in GGUF
  std::span<const GgufName> model;   // tensors outside the layers
  std::span<const GgufName> layer;
  // Writes the keys of the official config.json that say what the metadata say. `fields` reads keys below "<name>.".
  Status (*write_config)(const GgufModel& model, GgufFields& fields, boost::json::object& config);
};

extern const GgufArchitecture kGgufLlama, kGgufQwen2, kGgufQwen3, kGgufDeepSeek2, kGgufDeepSeek4;

// The architecture of a model, or a failure that names those there are.
Result<const GgufArchitecture*> gguf_architecture(const GgufModel& model);

}  // namespace sluice
