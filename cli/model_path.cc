#include "cli/model_path.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "base/utf8.h"
#include "files/hub_cache.h"
#include "files/model_path.h"
#include "hub/cached_models.h"
#include "hub/hub_name.h"
#include "hub/pull.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr const char* kEmbeddedModel = "sluice-tiny-v4";

Result<std::string> find_embedded_model() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (error) return not_found("the embedded model: the program's own path is unknown; name a model folder");
  std::string tried;
  // An installation, then a build tree.
  for (const char* place : {"../share/sluice/models", "../models"}) {
    const fs::path folder = (program.parent_path() / place / kEmbeddedModel).lexically_normal();
    if (fs::exists(folder / "config.json", error)) return folder.string();
    tried += fmt::format("{}{}", tried.empty() ? "" : " or ", folder.string());
  }
  return not_found(fmt::format("the embedded model: expected it in {}, found neither; name a model folder", tried));
}

// Returns whether the text names a model of the hub rather than a path, which has a folder before its slash.
bool names_hub_model(const std::string& given) {
  std::error_code error;
  return is_hub_name(given) && !fs::exists(fs::symlink_status(given, error)) &&
         !fs::is_directory(given.substr(0, given.find('/')), error);
}

// The model in the cache, or as the hub has it.
Result<std::string> find_hub_model(const std::string& given, ModelUse use, Fetch fetch) {
  SLUICE_ASSIGN_OR_RETURN(const HubName name, parse_hub_name(given));
  const Result<std::string> cached = find_cached_model(name);
  Result<std::string> found = cached.ok() ? find_model(*cached, use) : cached;
  const bool may_fetch = fetch == Fetch::kAlways ||
                         (fetch == Fetch::kAtTerminal && isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1);
  if (found.ok()) return found;
  if (!may_fetch) {
    return Status(found.status().code(),
                  fmt::format("{}; `sluice pull {}` fetches it", found.status().message(), given));
  }
  SLUICE_ASSIGN_OR_RETURN(const HubSettings settings, read_hub_settings());
  SLUICE_ASSIGN_OR_RETURN(const std::string pulled, pull_model(name, settings));
  return find_model(pulled, use);
}

Result<std::string> resolve(const std::string& given, ModelUse use, Fetch fetch = Fetch::kNever) {
  if (given.empty()) return find_embedded_model();
  std::error_code error;
  if (is_known_model(given) && !fs::exists(given, error)) return bring_known_model(given);
  if (names_hub_model(given)) return find_hub_model(given, use, fetch);
  Result<std::string> found = find_model(given, use);
  if (found.ok() || !found.status().message().ends_with(kNoSuchModel)) return found;
  return not_found(
      fmt::format("{}, and no model is known by this name (known: {})", found.status().message(), known_models()));
}

}  // namespace

Result<std::string> resolve_model_folder(const std::string& given) {
  return resolve(given, ModelUse::kWeights);
}

Result<std::string> resolve_model_or_config(const std::string& given) {
  return resolve(given, ModelUse::kWeightsOrConfig);
}

Result<std::string> resolve_model(const ModelOptions& model, Fetch fetch) {
  return resolve(model.folder, model.load_format == LoadFormat::kDummy ? ModelUse::kDummy : ModelUse::kWeights, fetch);
}

std::string model_name(const std::string& given, const std::string& path) {
  if (given != path && is_known_model(given)) return given;
  std::error_code error;
  fs::path absolute = fs::absolute(path, error).lexically_normal();
  if (absolute.filename().empty()) absolute = absolute.parent_path();
  if (std::string id = hub_id_of_snapshot(absolute.string()); !id.empty()) return to_valid_utf8(id);
  if (absolute.filename() == "config.json") return to_valid_utf8(absolute.parent_path().filename().string());
  const bool is_file = is_gguf_path(path) || fs::is_regular_file(absolute, error);
  return to_valid_utf8((is_file ? absolute.stem() : absolute.filename()).string());
}

}  // namespace sluice
