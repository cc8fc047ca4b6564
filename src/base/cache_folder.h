// Where the program keeps what it can make or bring again: $XDG_CACHE_HOME/sluice, or ~/.cache/sluice.
#pragma once

#include <filesystem>

#include "sluice/status.h"

namespace sluice {

// The folder, made if it is not there. Fails without a place for it (kInvalidArgument) or where none can be made.
Result<std::filesystem::path> cache_folder();

}  // namespace sluice
