// Tensors that a checkpoint holds and its weight table does not name. A model without them would answer something else
// than the one that was trained, so they are refused, each with the key of the config that speaks of it; but
// for a list of leftovers of which no answer depends.
// Thread safety: pure functions.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/model_config.h"
#include "files/checkpoint.h"
#include "sluice/status.h"

namespace sluice {

struct UnusedTensors {
  std::vector<const TensorView*> harmless;  // rotary tables, masks, scales of KV caches, layers that draft tokens
  std::string note;                         // for the user; "": nothing worth a line
};

// Fails if one of `unused` is not harmless.
Result<UnusedTensors> judge_unused(std::span<const TensorView* const> unused, const Checkpoint& checkpoint,
                                   const ModelConfig& config);

// What the names of a checkpoint that lacks the tensor `missing` say of the cause: "; its names begin with ..."; "" for
// nothing.
std::string naming_hint(const Checkpoint& checkpoint, std::string_view missing);

}  // namespace sluice
