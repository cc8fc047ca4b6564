// Where the model of a command lies.
#pragma once

#include <string>

#include "sluice/status.h"

namespace sluice {

// The folder `given`, or, when that is empty, of the embedded model, which is looked for relative to the program and
// not to the working folder. The error lists the places that were tried.
Result<std::string> resolve_model_folder(const std::string& given);

// The last part of a path: "models/sluice-tiny-v4/" gives "sluice-tiny-v4".
std::string folder_name(const std::string& path);

}  // namespace sluice
