// Where the model of a command is.
#pragma once

#include <string>

#include "sluice/status.h"

namespace sluice {

// The folder or .gguf file `given`, or the file of a model known by that name (known_model.h; an existing path comes
// first), or, if that is empty, the embedded model, which is looked for relative to the program, not to the working
// folder. The error lists the places that were tried.
Result<std::string> resolve_model_folder(const std::string& given);

// The same for commands that can do without weights: `given` may also be a config.json by itself.
Result<std::string> resolve_model_or_config(const std::string& given);

// The name of the model that was given as `given` and found at `path`: a known model's name if it was given by it, else
// that of the folder ("models/sluice-tiny-v4/" is "sluice-tiny-v4") or of the file ("some/model.gguf" is "model").
std::string model_name(const std::string& given, const std::string& path);

}  // namespace sluice
