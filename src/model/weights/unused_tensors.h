// Tensors that a checkpoint holds and its weight table does not name. A model without them would answer differently
// from the trained one, so they are refused, each with the key of the config that concerns it. The exception is a list
// of leftovers on which no answer depends.
// Thread safety: pure functions.
// Used by weight_table.cc.
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

// Returns a hint at the cause from the names of a checkpoint that lacks the tensor `missing`: "; its names begin with
// ..."; "" for none.
std::string naming_hint(const Checkpoint& checkpoint, std::string_view missing);

}  // namespace sluice
