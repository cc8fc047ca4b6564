// What `sluice --version` says.
#pragma once

#include <string>

namespace sluice {

// Version, commit, the ISA that "auto" picks, and the numerics profile that the embedded model gets by default.
std::string version_text();

}  // namespace sluice
