// The text that `sluice --version` prints.
#pragma once

#include <string>

namespace sluice {

// Version, commit, the ISA that "auto" picks, and the numerics profile that the embedded model gets by default.
std::string version_text();
const char* program_version();
const char* program_commit();  // the commit of the tree from which it was built

}  // namespace sluice
