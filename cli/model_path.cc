#include "cli/model_path.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "base/utf8.h"
#include "files/gguf_file.h"

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
  if (!fs::exists(given, error)) {
    if (is_known_model(given)) return bring_known_model(given);
    return not_found(
        fmt::format("model {}: there is no such folder or file, and no model is known by this name (known: {})", given,
                    known_models()));
  }
  const bool is_folder = fs::is_directory(given, error);
  if (is_gguf_path(given) || (is_folder && fs::exists(fs::path(given) / "config.json", error))) return given;
  return invalid_argument(
      fmt::format("model {}: expected a folder with config.json and *.safetensors, or a .gguf file, found {}", given,
                  is_folder ? "a folder without config.json" : "another file"));
}

Result<std::string> resolve_model_or_config(const std::string& given) {
  std::error_code error;
  if (fs::is_regular_file(given, error)) return given;
  return resolve_model_folder(given);
}

Result<std::string> resolve_model(const ModelOptions& model) {
  return model.load_format == "dummy" ? resolve_model_or_config(model.folder) : resolve_model_folder(model.folder);
}

std::string model_name(const std::string& given, const std::string& path) {
  if (given != path && is_known_model(given)) return given;
  std::error_code error;
  fs::path absolute = fs::absolute(path, error).lexically_normal();
  if (absolute.filename().empty()) absolute = absolute.parent_path();
  if (absolute.filename() == "config.json") return to_valid_utf8(absolute.parent_path().filename().string());
  const bool is_file = is_gguf_path(path) || fs::is_regular_file(absolute, error);
  return to_valid_utf8((is_file ? absolute.stem() : absolute.filename()).string());
}

}  // namespace sluice
