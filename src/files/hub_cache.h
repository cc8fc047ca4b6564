// The Hugging Face cache: models by id, as huggingface_hub keeps them.
//
//   HUB/models--org--name/refs/main               the hash of the newest commit that was fetched
//   HUB/models--org--name/snapshots/HASH/...      its files, links into blobs/
// Thread safety: pure functions of the file system and the environment.
// Used by cli, cli/commands, files and hub.
#pragma once

#include <string>

#include "sluice/status.h"

namespace sluice {

// $HF_HUB_CACHE, $HF_HOME/hub, $XDG_CACHE_HOME/huggingface/hub or ~/.cache/huggingface/hub, as huggingface_hub
// chooses; "" where none of them names a place.
std::string hub_cache_folder();

// Returns whether the text can be an id: "org/name" or "name".
bool is_hub_id(const std::string& text);
// Returns the folder in which the cache keeps a model of this id, whether it is there or not.
std::string hub_folder_of(const std::string& id);

// Returns whether the folder has the form of a model's folder in the cache, or is its "snapshots".
bool is_hub_folder(const std::string& folder);
// The snapshot that refs/main of such a folder names, else the only one.
Result<std::string> hub_snapshot(const std::string& folder);

// The id of the model whose snapshot this folder is: "org/name"; "" for other folders.
std::string hub_id_of_snapshot(const std::string& folder);

}  // namespace sluice
