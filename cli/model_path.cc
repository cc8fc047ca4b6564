#include "cli/model_path.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

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

}  // namespace

Result<std::string> resolve_model_folder(const std::string& given) {
  if (given.empty()) return find_embedded_model();
  std::error_code error;
  if (!fs::exists(given, error)) return not_found(fmt::format("model {}: there is no such folder", given));
  if (!fs::is_directory(given, error)) {
    return invalid_argument(
        fmt::format("model {}: expected a folder with config.json and *.safetensors, found a file", given));
  }
  return given;
}

std::string folder_name(const std::string& path) {
  std::error_code error;
  fs::path absolute = fs::absolute(path, error).lexically_normal();
  if (absolute.filename().empty()) absolute = absolute.parent_path();
  return absolute.filename().string();
}

}  // namespace sluice
