// Used by cached_models_list.cc, cli/commands/hub_commands.cc, cli/model_path.cc and pull.cc.
#include "hub/cached_models.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "base/storage/mapped_file.h"
#include "files/folder_list.h"
#include "files/hub_cache.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostRefBytes = 4096;

Status not_made(const fs::path& path, const std::error_code& error) {
  return resource_exhausted(fmt::format("{}: cannot be made ({})", path.string(), error.message()));
}

// The snapshot of a revision, a name or a commit; "" if there is none.
fs::path snapshot_of(const fs::path& model, const std::string& revision) {
  std::error_code error;
  const Result<std::string> text = read_text_file((model / "refs" / revision).string(), kMostRefBytes);
  std::string commit = text.ok() ? *text : revision;
  commit = commit.substr(0, commit.find_last_not_of(" \t\r\n") + 1);
  if (!check_hub_path(commit).ok() || commit.find('/') != std::string::npos) return {};
  const fs::path snapshot = model / "snapshots" / commit;
  return fs::is_directory(snapshot, error) ? snapshot : fs::path();
}

// The link is made under another name and renamed, so that there is always a whole one.
Status link(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::create_directories(from.parent_path(), error);
  if (error) return not_made(from.parent_path(), error);
  const fs::path pending = from.string() + fmt::format(".{}.pending", ::getpid());
  fs::remove(pending, error);
  fs::create_symlink(to.lexically_relative(from.parent_path()), pending, error);
  if (!error) fs::rename(pending, from, error);
  return error ? not_made(from, error) : Status();
}

Status write_ref(const fs::path& path, const std::string& commit) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error) return not_made(path.parent_path(), error);
  const fs::path pending = path.string() + fmt::format(".{}.pending", ::getpid());
  std::ofstream file(pending, std::ios::binary);
  file << commit;
  file.close();
  if (!file) return resource_exhausted(fmt::format("{}: cannot be written", pending.string()));
  fs::rename(pending, path, error);
  return error ? not_made(path, error) : Status();
}

}  // namespace

Result<std::string> find_cached_model(const HubName& name) {
  const fs::path model = hub_folder_of(name.id);
  const fs::path snapshot = snapshot_of(model, name.revision);
  if (snapshot.empty()) {
    // Other tools may have fetched one revision by its commit only.
    if (name.revision == "main" && name.quantisation.empty() && is_hub_folder(model.string())) {
      return hub_snapshot(model.string());
    }
    return not_found(
        fmt::format("model {}: the Hugging Face cache ({}) does not have it", name.text(), hub_cache_folder()));
  }
  if (name.quantisation.empty()) return snapshot.string();
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::recursive_directory_iterator at(snapshot, error), end; !error && at != end; at.increment(error)) {
    if (at->is_regular_file(error)) paths.push_back(at->path().lexically_relative(snapshot).string());
  }
  const Result<std::vector<std::string>> chosen = choose_gguf(paths, name);
  if (chosen.ok()) return (snapshot / chosen->front()).string();
  return not_found(fmt::format("model {}: the Hugging Face cache ({}) does not have it: {}", name.text(),
                               hub_cache_folder(), chosen.status().message()));
}

bool is_published(const std::string& snapshot, const RepositoryFile& file) {
  std::error_code error;
  const std::uintmax_t bytes = fs::file_size(fs::path(snapshot) / file.path, error);
  return !error && bytes == file.bytes;
}

Status publish(const std::string& model_folder, const Repository& repository, const std::vector<RepositoryFile>& files,
               const HubName& name) {
  const fs::path model = model_folder, snapshot = model / "snapshots" / repository.commit;
  std::vector<RepositoryFile> sorted = files;
  std::ranges::stable_partition(sorted, [](const RepositoryFile& file) { return file.path != "config.json"; });
  for (const RepositoryFile& file : sorted) {
    if (is_published(snapshot.string(), file)) continue;
    SLUICE_RETURN_IF_ERROR(link(snapshot / file.path, model / "blobs" / file.digest));
  }
  if (name.revision == repository.commit) return {};
  const fs::path ref = model / "refs" / name.revision;
  const Result<std::string> before = read_text_file(ref.string(), kMostRefBytes);
  return before.ok() && *before == repository.commit ? Status() : write_ref(ref, repository.commit);
}

}  // namespace sluice
