// Listing and removing models of the cache.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "base/storage/mapped_file.h"
#include "files/folder_list.h"
#include "files/hub_cache.h"
#include "hub/cached_models.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostCommitText = 4096;

// The commits that names lead to, with these names.
std::map<std::string, std::vector<std::string>> read_refs(const fs::path& model) {
  std::map<std::string, std::vector<std::string>> refs;
  std::error_code error;
  for (fs::recursive_directory_iterator at(model / "refs", error), end; !error && at != end; at.increment(error)) {
    if (!at->is_regular_file(error)) continue;
    const Result<std::string> text = read_text_file(at->path().string(), kMostCommitText);
    if (!text.ok()) continue;
    const std::string commit = text->substr(0, text->find_last_not_of(" \t\r\n") + 1);
    refs[commit].push_back(at->path().lexically_relative(model / "refs").string());
  }
  return refs;
}

// The files that a snapshot's links lead to, with their sizes.
std::map<std::string, std::uint64_t> files_of(const fs::path& snapshot) {
  std::map<std::string, std::uint64_t> files;
  std::error_code error;
  for (fs::recursive_directory_iterator at(snapshot, error), end; !error && at != end; at.increment(error)) {
    std::error_code lost;
    if (!at->is_regular_file(lost)) continue;
    const fs::path target = fs::canonical(at->path(), lost);
    const std::uintmax_t bytes = fs::file_size(at->path(), lost);
    if (!lost) files[target.string()] = bytes;
  }
  return files;
}

std::string kind_of(const fs::path& snapshot) {
  std::error_code error;
  if (fs::exists(snapshot / "config.json", error)) {
    const Result<FolderList> list = list_folder(snapshot.string());
    if (list.ok() &&
        std::ranges::any_of(list->files, [](const std::string& f) { return has_ending(f, ".safetensors"); }))
      return "safetensors";
  }
  for (fs::recursive_directory_iterator at(snapshot, error), end; !error && at != end; at.increment(error)) {
    if (has_ending(at->path().string(), ".gguf")) return "gguf";
  }
  return "";
}

std::uint64_t bytes_below(const fs::path& folder) {
  std::uint64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code lost;
    if (at->is_symlink(lost) || !at->is_regular_file(lost)) continue;
    const std::uintmax_t size = at->file_size(lost);
    if (!lost) bytes += size;
  }
  return bytes;
}

Status remove_tree(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (!error) return {};
  return invalid_argument(fmt::format("{}: cannot be removed ({})", path.string(), error.message()));
}

// Removes one snapshot, the names that lead to it, and the blobs that no other snapshot has.
Status remove_snapshot(const fs::path& model, const fs::path& snapshot) {
  std::set<std::string> kept;
  std::error_code error;
  for (const fs::directory_entry& other : fs::directory_iterator(model / "snapshots", error)) {
    if (other.path().filename() == snapshot.filename()) continue;
    for (const auto& [file, bytes] : files_of(other.path())) kept.insert(file);
  }
  const std::string blobs = fs::canonical(model / "blobs", error).string() + "/";
  for (const auto& [file, bytes] : files_of(snapshot)) {
    if (file.starts_with(blobs) && !kept.contains(file)) SLUICE_RETURN_IF_ERROR(remove_tree(file));
  }
  auto refs = read_refs(model);
  for (const std::string& ref : refs[snapshot.filename().string()]) {
    SLUICE_RETURN_IF_ERROR(remove_tree(model / "refs" / ref));
  }
  return remove_tree(snapshot);
}

}  // namespace

std::vector<CachedModel> list_cached_models() {
  std::vector<CachedModel> models;
  const Result<FolderList> list = list_folder(hub_cache_folder());
  if (!list.ok()) return models;
  for (const std::string& folder : list->folders) {
    const fs::path model = fs::path(hub_cache_folder()) / folder;
    const Result<FolderList> snapshots = list_folder((model / "snapshots").string());
    if (!folder.starts_with("models--") || !snapshots.ok()) continue;
    auto refs = read_refs(model);
    for (const std::string& commit : snapshots->folders) {
      const fs::path snapshot = model / "snapshots" / commit;
      CachedModel found{.id = hub_id_of_snapshot(snapshot.string()), .revision = commit, .commit = commit};
      if (std::vector<std::string>& names = refs[commit]; !names.empty()) {
        std::ranges::sort(names);
        found.revision = fmt::format("{}", fmt::join(names, ","));
      }
      found.kind = kind_of(snapshot);
      for (const auto& [file, bytes] : files_of(snapshot)) found.bytes += bytes;
      models.push_back(std::move(found));
    }
  }
  return models;
}

Result<std::uint64_t> remove_cached_model(const HubName& name, bool whole) {
  const fs::path model = hub_folder_of(name.id);
  std::error_code error;
  if (!fs::is_directory(model, error)) {
    return not_found(
        fmt::format("model {}: the Hugging Face cache ({}) does not have it", name.id, hub_cache_folder()));
  }
  const std::uint64_t before = bytes_below(model / "blobs");
  if (whole) {
    SLUICE_RETURN_IF_ERROR(remove_tree(model));
    SLUICE_RETURN_IF_ERROR(remove_tree(fs::path(hub_cache_folder()) / ".locks" / model.filename()));
    return before;
  }
  const auto refs = read_refs(model);
  const auto named =
      std::ranges::find_if(refs, [&](const auto& ref) { return std::ranges::count(ref.second, name.revision) > 0; });
  const fs::path snapshot = model / "snapshots" / (named == refs.end() ? name.revision : named->first);
  if (name.revision.find("..") != std::string::npos || !fs::is_directory(snapshot, error) ||
      snapshot.parent_path() != model / "snapshots") {
    return not_found(fmt::format("model {}: the Hugging Face cache ({}) has no such revision of it", name.text(),
                                 hub_cache_folder()));
  }
  SLUICE_RETURN_IF_ERROR(remove_snapshot(model, snapshot));
  return before - std::min(before, bytes_below(model / "blobs"));
}

}  // namespace sluice
