#include "cli/model_path.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "base/utf8.h"
#include "files/hub_cache.h"
#include "files/model_path.h"

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

Result<std::string> resolve(const std::string& given, ModelUse use) {
  if (given.empty()) return find_embedded_model();
  std::error_code error;
  if (is_known_model(given) && !fs::exists(given, error)) return bring_known_model(given);
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

Result<std::string> resolve_model(const ModelOptions& model) {
  return resolve(model.folder, model.load_format == LoadFormat::kDummy ? ModelUse::kDummy : ModelUse::kWeights);
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
