// Used by many folders, among them cli, config and engine.
#include "files/model_path.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <optional>
#include <system_error>
#include <vector>

#include "base/storage/file_form.h"
#include "base/storage/mapped_file.h"
#include "files/folder_list.h"
#include "files/hub_cache.h"
#include "files/weight_files.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kGgufMagic = "GGUF", kGgufEnding = ".gguf";
constexpr std::string_view kExpected = "expected a folder with config.json and *.safetensors, or a GGUF file";
constexpr std::size_t kFirstBytes = 512;

bool is_folder(const std::string& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

Status wrong(const std::string& given, std::string_view found) {
  return invalid_argument(fmt::format("model {}: {}, {}", given, kExpected, found));
}

// True for a file that comes with a model's GGUF file and is none: the part that reads pictures, and the quantiser's
// statistics.
bool is_companion(std::string_view name) {
  std::string lower(name);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower.find("mmproj") != std::string::npos || lower.find("imatrix") != std::string::npos;
}

// Returns whether a name is like "x-00002-of-00003.gguf": such a file is opened by way of the first.
bool is_later_part(std::string_view name) {
  const std::size_t of = name.rfind("-of-");
  if (of == std::string_view::npos || of < 6) return false;
  const std::string_view part = name.substr(of - 6, 6);
  return part.front() == '-' && part != "-00001" &&
         std::ranges::all_of(part.substr(1), [](char c) { return c >= '0' && c <= '9'; });
}

// Lists the GGUF models in a folder, else those in the folders below it that are no models themselves.
std::vector<std::string> gguf_models(const std::string& folder, bool below = true) {
  const Result<FolderList> list = list_folder(folder);
  std::vector<std::string> models;
  if (!list.ok()) return models;
  for (const std::string& name : list->files) {
    const std::string path = fmt::format("{}/{}", folder, name);
    if (!is_companion(name) && !is_later_part(name) && is_gguf_path(path)) models.push_back(path);
  }
  if (!models.empty() || !below) return models;
  for (const std::string& name : list->folders) {
    const std::string deeper = fmt::format("{}/{}", folder, name);
    if (Result<bool> other = path_exists(deeper + "/config.json"); other.ok() && *other) continue;
    for (std::string& path : gguf_models(deeper, false)) models.push_back(std::move(path));
  }
  return models;
}

Result<std::string> find_in_folder(const std::string& given, const std::string& folder, ModelUse use) {
  SLUICE_ASSIGN_OR_RETURN(const bool has_config, path_exists(folder + "/config.json"));
  if (has_config && (use == ModelUse::kDummy || has_safetensors(folder))) return folder;
  std::vector<std::string> models = gguf_models(folder);
  if (models.size() == 1) return models.front();
  if (models.size() > 1) {
    return invalid_argument(
        fmt::format("model {}: expected one model in the folder, found {} GGUF files; name one of them: {}", given,
                    models.size(), fmt::join(models, ", ")));
  }
  if (has_config) return folder;  // opening the folder reports what it has instead of weights
  return wrong(given, explain_folder(folder));
}

Result<std::string> find_file(const std::string& given, ModelUse use) {
  if (is_gguf_path(given)) return given;
  SLUICE_ASSIGN_OR_RETURN(const std::string first, read_first_bytes(given, kFirstBytes));
  const std::string parent = fs::path(given).parent_path().string();
  const std::string folder = parent.empty() ? "." : parent;
  if (has_ending(given, ".safetensors") || has_ending(given, ".safetensors.index.json")) {
    return wrong(given, fmt::format("found a file of such a folder; name the folder, {}", folder));
  }
  SLUICE_RETURN_IF_ERROR(check_no_lfs_pointer(given, first, first.size()));
  if (const std::string_view form = foreign_form(first); !form.empty())
    return wrong(given, fmt::format("found {}", form));
  if (use != ModelUse::kWeights) return given;
  if (has_ending(given, ".json")) {
    return wrong(given,
                 fmt::format("found a JSON file, which has no weights; name its folder, {}, or use --load-format "
                             "dummy for random weights",
                             folder));
  }
  return wrong(given, "found another file");
}

// Returns the id in a URL: "https://huggingface.co/org/name/tree/main" has "org/name".
std::string id_of_url(std::string_view url) {
  for (const std::string_view host : {"huggingface.co/", "hf.co/"}) {
    const std::size_t at = url.find(host);
    if (at == std::string_view::npos) continue;
    url.remove_prefix(at + host.size());
    const std::size_t slash = url.find('/');
    if (slash == std::string_view::npos) return "";
    const std::size_t end = std::min(url.find_first_of("/?#", slash + 1), url.size());
    std::string id(url.substr(0, end));
    return is_hub_id(id) ? id : "";
  }
  return "";
}

bool is_url(std::string_view text) {
  return text.find("://") != std::string_view::npos || text.starts_with("huggingface.co/") ||
         text.starts_with("hf.co/");
}

Status url_refused(const std::string& url) {
  const std::string id = id_of_url(url);
  if (id.empty()) {
    return invalid_argument(fmt::format("model {}: this is a URL; download it, and name its folder or GGUF file", url));
  }
  const bool cached = is_hub_folder(hub_folder_of(id));
  return invalid_argument(fmt::format("model {}: this is a URL; {} {}", url,
                                      cached ? "the Hugging Face cache has it: name it" : "fetch it with: sluice pull",
                                      cached ? id : id + ", and name it " + id));
}

Result<std::string> find_absent(const std::string& given, ModelUse use) {
  if (is_url(given)) return url_refused(given);
  std::error_code error;
  const fs::path target = fs::read_symlink(given, error);
  if (!error) {
    return not_found(fmt::format("model {}: it is a link to {}, which does not exist", given, target.string()));
  }
  const std::size_t slash = given.find('/');
  const bool is_path = slash != std::string::npos && is_folder(given.substr(0, slash));
  if (is_hub_id(given) && !is_path) {
    const std::string cached = hub_folder_of(given);
    if (is_hub_folder(cached)) {
      SLUICE_ASSIGN_OR_RETURN(const std::string snapshot, hub_snapshot(cached));
      return find_in_folder(snapshot, snapshot, use);
    }
    if (slash != std::string::npos) {
      return not_found(
          fmt::format("model {}: {}, and the Hugging Face cache ({}) has no model of this id; `sluice pull {}` "
                      "fetches it",
                      given, kNoSuchModel, hub_cache_folder(), given));
    }
  }
  return not_found(fmt::format("model {}: {}", given, kNoSuchModel));
}

}  // namespace

bool is_gguf_path(const std::string& path) {
  const Result<std::string> first = read_first_bytes(path, kGgufMagic.size());
  if (first.ok() && *first == kGgufMagic) return true;
  return has_ending(path, kGgufEnding) && !is_folder(path);
}

bool is_config_path(const std::string& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) && !is_gguf_path(path);
}

Result<std::string> find_model(const std::string& given, ModelUse use) {
  Result<bool> exists = path_exists(given);
  if (!exists.ok()) return exists.status().with_context("model");
  if (!*exists) return find_absent(given, use);
  if (!is_folder(given)) return find_file(given, use);
  if (!is_hub_folder(given)) return find_in_folder(given, given, use);
  SLUICE_ASSIGN_OR_RETURN(const std::string snapshot, hub_snapshot(given));
  return find_in_folder(snapshot, snapshot, use);
}

}  // namespace sluice
