// The models of the Hugging Face cache: finding one by its name, publishing what was fetched, listing, removing.
//
//   HUB/models--org--name/blobs/DIGEST                   the bytes of files
//   HUB/models--org--name/refs/main                      the commit of a revision
//   HUB/models--org--name/snapshots/COMMIT/config.json   links to ../../blobs/DIGEST
// Thread safety: functions of the file system and the environment.
// Used by cached_models_list.cc, cli/commands/hub_commands.cc, cli/model_path.cc and pull.cc.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hub/hub_name.h"
#include "hub/repository.h"
#include "sluice/status.h"

namespace sluice {

// The folder of a cached revision, or the first GGUF file of a quantisation in it. Fails with kNotFound if the cache
// has no such revision.
Result<std::string> find_cached_model(const HubName& name);

// Whether a file of a snapshot is there, with all its bytes.
bool is_published(const std::string& snapshot, const RepositoryFile& file);
// Links the files into the snapshot, config.json last, and makes the revision's name lead to it. The blobs are there.
Status publish(const std::string& model_folder, const Repository& repository, const std::vector<RepositoryFile>& files,
               const HubName& name);

struct CachedModel {
  std::string id = {}, revision = {}, commit = {};  // the revision: names of it, split by commas; else the commit
  std::string kind = {};                            // safetensors, gguf, or "" for what is no model yet
  std::uint64_t bytes = 0;
};
// One for each snapshot, by name. A folder that cannot be read is left out.
std::vector<CachedModel> list_cached_models();

// Removes a model, or with a revision other than main this revision and the blobs that no other has. Returns the
// number of bytes that this made free.
Result<std::uint64_t> remove_cached_model(const HubName& name, bool whole);

}  // namespace sluice
