// Used by cli, cli/commands, files and hub.
#include "files/hub_cache.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/storage/mapped_file.h"
#include "files/folder_list.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kModels = "models--";
constexpr std::size_t kMaxRefBytes = 4096;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Expands "~/x" and "$NAME/x" as the library does.
std::string expanded(std::string path) {
  if (path == "~" || path.starts_with("~/")) path = variable("HOME") + path.substr(1);
  if (path.starts_with('$')) {
    const std::size_t end = std::min(path.find('/'), path.size());
    std::string name = path.substr(1, end - 1);
    if (name.starts_with('{') && name.ends_with('}')) name = name.substr(1, name.size() - 2);
    if (const std::string value = variable(name.c_str()); !value.empty()) path = value + path.substr(end);
  }
  return path;
}

bool is_folder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

// Returns the path without a slash at its end.
fs::path plain_path(const std::string& folder) {
  const fs::path path = fs::path(folder).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

// Returns the folder of the model, given that folder or its "snapshots".
fs::path model_folder(const std::string& folder) {
  std::error_code error;
  fs::path absolute = fs::absolute(folder, error);
  if (error) absolute = folder;
  const fs::path path = plain_path(absolute.string());
  return path.filename() == "snapshots" && path.parent_path().filename().string().starts_with(kModels)
             ? path.parent_path()
             : path;
}

}  // namespace

std::string hub_cache_folder() {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (const std::string given = variable(name); !given.empty()) return expanded(given);
  }
  if (const std::string home = variable("HF_HOME"); !home.empty()) return expanded(home) + "/hub";
  if (const std::string cache = variable("XDG_CACHE_HOME"); !cache.empty()) return expanded(cache) + "/huggingface/hub";
  const std::string home = variable("HOME");
  return home.empty() ? "" : home + "/.cache/huggingface/hub";
}

bool is_hub_id(const std::string& text) {
  const auto is_part = [](std::string_view part) {
    return !part.empty() && part.front() != '.' && part.front() != '-' && part.find("--") == std::string_view::npos &&
           part.find("..") == std::string_view::npos && std::ranges::all_of(part, [](char c) {
             return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                    c == '_' || c == '.';
           });
  };
  constexpr std::size_t kMostCharacters = 96;  // the hub's limit
  const std::size_t slash = text.find('/');
  if (text.size() > 2 * kMostCharacters) return false;
  if (slash == std::string::npos) return is_part(text);
  return is_part(std::string_view(text).substr(0, slash)) && is_part(std::string_view(text).substr(slash + 1));
}

std::string hub_folder_of(const std::string& id) {
  std::string name = id;
  if (const std::size_t slash = name.find('/'); slash != std::string::npos) name.replace(slash, 1, "--");
  return fmt::format("{}/{}{}", hub_cache_folder(), kModels, name);
}

bool is_hub_folder(const std::string& folder) {
  const fs::path model = model_folder(folder);
  return is_folder(model / "snapshots") &&
         (is_folder(model / "refs") || is_folder(model / "blobs") || model.filename().string().starts_with(kModels));
}

Result<std::string> hub_snapshot(const std::string& folder) {
  const fs::path model = model_folder(folder), snapshots = model / "snapshots";
  const Result<std::string> main = read_text_file((model / "refs/main").string(), kMaxRefBytes);
  if (main.ok()) {
    const std::string hash = main->substr(0, main->find_last_not_of(" \t\r\n") + 1);
    const bool is_name = !hash.empty() && hash != "." && hash != ".." && hash.find('/') == std::string::npos &&
                         hash.find('\0') == std::string::npos;
    if (is_name && is_folder(snapshots / hash)) return (snapshots / hash).string();
  } else if (main.status().code() != StatusCode::kNotFound) {
    return main.status();
  }
  SLUICE_ASSIGN_OR_RETURN(const FolderList list, list_folder(snapshots.string()));
  if (list.folders.size() == 1) return (snapshots / list.folders.front()).string();
  if (list.folders.empty()) {
    return not_found(
        fmt::format("{}: expected a snapshot of the model, found none; download it again", snapshots.string()));
  }
  return invalid_argument(
      fmt::format("{}: expected refs/main to name a snapshot, or only one, found {}; name one of them",
                  snapshots.string(), fmt::join(list.folders, ", ")));
}

std::string hub_id_of_snapshot(const std::string& folder) {
  std::error_code error;
  const fs::path path = plain_path(fs::absolute(folder, error).string());
  const std::string name = path.parent_path().parent_path().filename().string();
  if (path.parent_path().filename() != "snapshots" || !name.starts_with(kModels)) return "";
  std::string id = name.substr(kModels.size());
  if (const std::size_t dashes = id.find("--"); dashes != std::string::npos) id.replace(dashes, 2, "/");
  return id;
}

}  // namespace sluice
