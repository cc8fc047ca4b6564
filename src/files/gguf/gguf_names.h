// GgufNames: how the files of one architecture name and lay out the tensors of the official checkpoint. The tables are
// in src/config; gguf_tensors.h applies them.
// Used by config/gguf/gguf_config.h, files/checkpoint.h and gguf_tensors.h.
#pragma once

#include <span>
#include <string_view>

#include "sluice/status.h"

namespace sluice {

class GgufModel;

// The layout of a tensor's elements, compared with the official tensor of the same numbers.
enum class GgufLayout {
  kSame,
  // [experts, out, in]: officially one tensor per expert, with "{}" in its name.
  kExperts,
  // The rows of a query or key head in the order 0, d/2, 1, d/2 + 1, ... (rotated pairs side by side).
  kInterleavedQueries,
  kInterleavedKeys,
  // The two halves of kv_b: [heads, rank, nope] (transposed) and [heads, v, rank]. Both name the official tensor, which
  // has the nope rows of each head, then its v rows.
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

struct GgufNames {
  std::string_view official_prefix;  // for layer tensors, "{}" for the number ("model.layers.{}."); "blk.{}." in GGUF
  std::span<const GgufName> model;   // tensors outside the layers
  std::span<const GgufName> layer;
};

// The names for a file's architecture; fails if that is not supported.
using GgufNaming = Result<GgufNames> (*)(const GgufModel& model);

}  // namespace sluice
