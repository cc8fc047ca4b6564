// download(): one file of a repository, from the hub to its place among the blobs of the cache.
// Thread safety: calls for different files may run at once; processes exclude each other by a lock of the file.
// Used by pull.cc.
#pragma once

#include <string>

#include "hub/hub_http.h"
#include "hub/repository.h"
#include "hub/transfer_progress.h"
#include "sluice/status.h"

namespace sluice {

struct DownloadPlan {
  const HubSettings& settings;
  const HubName& name;
  std::string commit;
  std::string blobs;  // the folder
  std::string locks;  // the folder for locks, which huggingface_hub shares
};

inline constexpr std::uint64_t kChunkBytes = 16 << 20;  // each request for a part of a large file
inline constexpr std::size_t kConnections = 4;          // for a large file

// Fetches what is missing, in parallel if that is much, checks the digest and gives the file its name. A file whose
// bytes are wrong is removed.
Status download(const DownloadPlan& plan, const RepositoryFile& file, HubHttp& http, TransferProgress& progress);

}  // namespace sluice
