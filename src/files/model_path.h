// Finds out what the path of a model names, here alone: by what lies there, not by how it is called.
//
// A model is a folder (config.json, *.safetensors), a GGUF file under any name, or, without weights, a config.json.
// Some paths lead to one of these: the folder of a model in the Hugging Face cache, an id ("org/name") that the cache
// holds, and a folder with one GGUF model. Thread safety: pure functions of the file system and the environment.
// Used by many folders, among them cli, config and engine.
#pragma once

#include <string>
#include <string_view>

#include "sluice/status.h"

namespace sluice {

// Returns whether the path is a GGUF file: a file that begins with "GGUF". A path that cannot be read, or that does not
// exist, goes by its ending, so that the message about it is the right one. A folder never is one.
bool is_gguf_path(const std::string& path);

// Returns whether the path is a config.json by itself: a file, and no GGUF file.
bool is_config_path(const std::string& path);

enum class ModelUse {
  kWeights,
  kWeightsOrConfig,  // the path may be a config.json by itself
  kDummy,            // the same, and weights do not matter
};

// The end of the message that there is nothing of this name.
inline constexpr std::string_view kNoSuchModel = "there is no such folder or file";

// The folder or file that `given` leads to; what it leads to leads to itself. Fails with the cause: what lies
// there instead, what may not be read, what the cache does not hold.
Result<std::string> find_model(const std::string& given, ModelUse use);

}  // namespace sluice
