// Where the model of a command lies.
#pragma once

#include <string>

#include "sluice/status.h"

namespace sluice {

// The folder or .gguf file `given`, or the file of a model known by that name (known_model.h; a path goes first), or,
// when that is empty, of the embedded model, which is looked for relative to the program and not to the working folder.
// The error lists the places that were tried.
Result<std::string> resolve_model_folder(const std::string& given);

// What a model at a path is called: "models/sluice-tiny-v4/" is "sluice-tiny-v4", "some/model.gguf" is "model", the
// file of a known model has its name.
std::string folder_name(const std::string& path);

}  // namespace sluice
