// Finds the safetensors files of a model's folder that hold its weights.
//
// As in transformers, model.safetensors comes first, then the shards that model.safetensors.index.json names. Without
// either it is the one set of shards that is there whole (NAME-00001-of-00003.safetensors and so on), or the one file.
// They are in the folder or, if it has none, in one below it. Never two copies: Mistral's consolidated.safetensors, for
// one, counts only where nothing else is there. Thread safety: pure functions of the file system.
// Used by checkpoint.cc, hub/pull.cc and model_path.cc.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sluice/status.h"

namespace sluice {

struct WeightFiles {
  std::vector<std::string> names;                      // relative to the folder, in the order in which they are opened
  std::string index = {};                              // the path of the index; "": there is none
  std::map<std::string, std::string> weight_map = {};  // the index: tensor -> file
  std::string note = {};                               // a note for the user
};

// Fails with what lies there instead, or which shard is missing. Refuses an adapter next to the weights, which would be
// left out without its effect; an adapter_config.json alone is a note.
Result<WeightFiles> find_weight_files(const std::string& folder);

// Returns whether the folder has safetensors files that may be its weights.
bool has_safetensors(const std::string& folder);

}  // namespace sluice
