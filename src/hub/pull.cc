// Used by cli/commands/hub_commands.cc and cli/model_path.cc.
#include "hub/pull.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>
#include <vector>

#include "base/log.h"
#include "base/progress.h"
#include "files/folder_list.h"
#include "files/hub_cache.h"
#include "files/model_path.h"
#include "files/weight_files.h"
#include "hub/cached_models.h"
#include "hub/download.h"
#include "hub/hub_http.h"
#include "hub/repository.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kSpareBytes = 16 << 20;  // for links and folders

Status make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!error) return {};
  return resource_exhausted(fmt::format("{}: cannot be made ({})", folder.string(), error.message()));
}

// The files whose bytes the cache lacks. Two of the same bytes are one blob.
std::vector<RepositoryFile> missing_files(const std::vector<RepositoryFile>& files, const fs::path& model,
                                          const std::string& commit) {
  std::vector<RepositoryFile> missing;
  std::set<std::string> digests;
  for (const RepositoryFile& file : files) {
    if (is_published((model / "snapshots" / commit).string(), file)) continue;
    std::error_code error;
    const std::uintmax_t bytes = fs::file_size(model / "blobs" / file.digest, error);
    if (!error && bytes == file.bytes) continue;
    if (!error) fs::remove(model / "blobs" / file.digest, error);  // cut by a crash
    if (digests.insert(file.digest).second) missing.push_back(file);
  }
  return missing;
}

// Counts the bytes that part files have already.
std::uint64_t bytes_there(const std::vector<RepositoryFile>& missing, const fs::path& blobs) {
  std::uint64_t there = 0;
  for (const RepositoryFile& file : missing) {
    std::error_code error;
    const std::uintmax_t bytes = fs::file_size(blobs / (file.digest + ".incomplete"), error);
    if (!error && bytes <= file.bytes) there += bytes;
  }
  return there;
}

Status check_space(const fs::path& folder, std::uint64_t needed) {
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  if (error || space.available >= needed + kSpareBytes) return {};
  return resource_exhausted(fmt::format("{}: expected {} of free disk for the model, found {}", folder.string(),
                                        format_bytes(static_cast<double>(needed + kSpareBytes)),
                                        format_bytes(static_cast<double>(space.available))));
}

Status bring(const std::vector<RepositoryFile>& missing, const DownloadPlan& plan, HubHttp& http) {
  SLUICE_RETURN_IF_ERROR(make_folder(plan.blobs));
  SLUICE_RETURN_IF_ERROR(make_folder(plan.locks));
  std::uint64_t total = 0;
  for (const RepositoryFile& file : missing) total += file.bytes;
  const std::uint64_t there = bytes_there(missing, plan.blobs);
  SLUICE_RETURN_IF_ERROR(check_space(plan.blobs, total - there));
  log_info("{}: fetching {} files, {}{}, from {}", plan.name.text(), missing.size(),
           format_bytes(static_cast<double>(total)),
           there == 0 ? "" : fmt::format(" ({} of it are here)", format_bytes(static_cast<double>(there))),
           plan.settings.endpoint);
  TransferProgress progress(plan.name.id, there, total);
  for (const RepositoryFile& file : missing) SLUICE_RETURN_IF_ERROR(download(plan, file, http, progress));
  log_info("{}: {}", plan.name.text(), progress.text());
  return {};
}

Result<std::string> pull_offline(const HubName& name) {
  const std::string advice = "HF_HUB_OFFLINE is set, so nothing is fetched";
  Result<std::string> found = find_cached_model(name);
  if (!found.ok()) return found.status().with_context(advice);
  if (const Result<std::string> model = find_model(*found, ModelUse::kWeights); !model.ok()) {
    return model.status().with_context(advice);
  }
  if (is_gguf_path(*found) || !has_safetensors(*found)) return found;
  if (const Result<WeightFiles> weights = find_weight_files(*found); !weights.ok()) {
    return weights.status().with_context(advice);
  }
  return found;
}

}  // namespace

Result<std::string> pull_model(const HubName& name, const HubSettings& settings) {
  if (settings.offline) return pull_offline(name);
  HubHttp http(settings);
  SLUICE_ASSIGN_OR_RETURN(const Repository repository, fetch_repository(http, name, settings));
  SLUICE_ASSIGN_OR_RETURN(const std::vector<RepositoryFile> files, choose_files(repository, name));
  const fs::path model = hub_folder_of(name.id);
  const std::vector<RepositoryFile> missing = missing_files(files, model, repository.commit);
  const DownloadPlan plan{.settings = settings,
                          .name = name,
                          .commit = repository.commit,
                          .blobs = (model / "blobs").string(),
                          .locks = (fs::path(hub_cache_folder()) / ".locks" / model.filename()).string()};
  if (missing.empty()) {
    log_info("{}: the cache has all of it, {} files of commit {}", name.text(), files.size(),
             repository.commit.substr(0, 12));
  } else {
    SLUICE_RETURN_IF_ERROR(bring(missing, plan, http));
  }
  SLUICE_RETURN_IF_ERROR(publish(model.string(), repository, files, name));
  const fs::path snapshot = model / "snapshots" / repository.commit;
  std::string path = snapshot.string();
  const bool has_gguf =
      std::ranges::all_of(files, [](const RepositoryFile& file) { return has_ending(file.path, ".gguf"); });
  if (has_gguf) {
    path = (snapshot / std::ranges::min(files, {}, &RepositoryFile::path).path).string();
  }
  return path;
}

}  // namespace sluice
