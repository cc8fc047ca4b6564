// The folder for files that the program can make or download again: $XDG_CACHE_HOME/sluice, or ~/.cache/sluice.
// Used by cli/known_model.cc and model/packing/weight_packer.cc.
#pragma once

#include <filesystem>

#include "sluice/status.h"

namespace sluice {

// The folder, created if missing. Fails if neither variable names a place (kInvalidArgument), or if it cannot be
// created.
Result<std::filesystem::path> cache_folder();

}  // namespace sluice
