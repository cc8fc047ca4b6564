// Which files of a repository are needed.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <utility>

#include "base/progress.h"
#include "files/folder_list.h"
#include "hub/repository.h"

namespace sluice {
namespace {

constexpr std::size_t kMostNamed = 40;  // choices in a message

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

bool is_at_root(std::string_view path) {
  return path.find('/') == std::string_view::npos;
}

// Config, tokenizer, generation config and templates.
bool is_small_file(std::string_view path) {
  if (path.starts_with("additional_chat_templates/") && has_ending(path, ".jinja")) return true;
  return is_at_root(path) && (has_ending(path, ".json") || has_ending(path, ".jinja") || has_ending(path, ".model") ||
                              has_ending(path, ".tiktoken") || path == "merges.txt" || path == "vocab.txt");
}

bool is_gguf_model(std::string_view path) {
  const std::string name = lower(path);
  return name.ends_with(".gguf") && name.find("mmproj") == std::string::npos &&
         name.find("imatrix") == std::string::npos;
}

// "x-00001-of-00002.gguf" and "x.gguf" are of the model "x".
std::string model_of(std::string_view path) {
  std::string_view stem = path.substr(0, path.size() - std::string_view(".gguf").size());
  const std::size_t of = stem.rfind("-of-");
  if (of != std::string_view::npos && of >= 6 && stem[of - 6] == '-') stem = stem.substr(0, of - 6);
  return std::string(stem);
}

// Returns whether the name of a model ends in the quantisation, as in "Model-Q4_K_M" and "model.q4_k_m".
bool is_of(const std::string& model, const std::string& quantisation) {
  const std::string name = lower(model), wanted = lower(quantisation);
  if (!name.ends_with(wanted)) return false;
  const std::size_t before = name.size() - wanted.size();
  return before == 0 || name[before - 1] == '-' || name[before - 1] == '.' || name[before - 1] == '/';
}

// Returns the text that a user can write behind the colon: all that follows the names' common beginning, which ends at
// a '-', '.' or '/'.
std::string choice_of(const std::string& model, std::size_t common) {
  const std::size_t mark = model.find_last_of("-./", common == 0 ? 0 : common - 1);
  return model.substr(mark == std::string::npos || common == 0 ? model.rfind('/') + 1 : mark + 1);
}

std::string choices(const std::map<std::string, std::vector<std::string>>& models, const std::string& id) {
  std::size_t common = models.begin()->first.size();
  for (const auto& [model, parts] : models) {
    const auto differs = std::ranges::mismatch(model, models.begin()->first).in1;
    common = std::min(common, static_cast<std::size_t>(differs - model.begin()));
  }
  std::vector<std::string> names;
  for (const auto& [model, parts] : models) {
    if (names.size() < kMostNamed) names.push_back(id + ":" + choice_of(model, common));
  }
  if (models.size() > kMostNamed) names.push_back(fmt::format("... ({} in all)", models.size()));
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

Result<std::vector<std::string>> choose_gguf(const std::vector<std::string>& paths, const HubName& name) {
  std::map<std::string, std::vector<std::string>> models, chosen;
  for (const std::string& path : paths) {
    if (is_gguf_model(path)) models[model_of(path)].push_back(path);
  }
  if (models.empty()) return not_found(fmt::format("{}: expected GGUF files, found none", name.text()));
  for (const auto& [model, parts] : models) {
    if (name.quantisation.empty() || is_of(model, name.quantisation)) chosen.emplace(model, parts);
  }
  if (chosen.size() == 1) {
    std::vector<std::string> parts = chosen.begin()->second;
    std::ranges::sort(parts);
    return parts;
  }
  return invalid_argument(fmt::format("{}: expected one GGUF model {}, found {}; name one of: {}", name.text(),
                                      name.quantisation.empty() ? "in the repository" : "of this quantisation",
                                      chosen.empty() ? "none" : "several",
                                      choices(chosen.empty() ? models : chosen, name.id)));
}

Result<std::vector<RepositoryFile>> choose_files(const Repository& repository, const HubName& name) {
  std::vector<std::string> gguf;
  bool has_weights = false, has_numbered = false;
  for (const RepositoryFile& file : repository.files) {
    if (is_gguf_model(file.path)) gguf.push_back(file.path);
    const bool is_weights = is_at_root(file.path) && has_ending(file.path, ".safetensors");
    has_weights = has_weights || is_weights;
    has_numbered = has_numbered || (is_weights && file.path.starts_with("model"));
  }
  std::vector<RepositoryFile> chosen;
  if (!gguf.empty() && (!has_weights || !name.quantisation.empty())) {
    SLUICE_ASSIGN_OR_RETURN(const std::vector<std::string> wanted, choose_gguf(gguf, name));
    std::ranges::copy_if(repository.files, std::back_inserter(chosen),
                         [&](const RepositoryFile& file) { return std::ranges::count(wanted, file.path) > 0; });
    return chosen;
  }
  if (!name.quantisation.empty() || !has_weights) {
    return not_found(fmt::format("{}: expected {}, found {}", name.text(),
                                 name.quantisation.empty() ? "*.safetensors or GGUF files" : "GGUF files",
                                 has_weights ? "only *.safetensors" : "neither in its root"));
  }
  for (const RepositoryFile& file : repository.files) {
    // A second copy of the weights in another form has another name, consolidated.safetensors.
    const bool is_weights = is_at_root(file.path) && has_ending(file.path, ".safetensors") &&
                            (!has_numbered || file.path.starts_with("model"));
    if (is_weights || is_small_file(file.path)) chosen.push_back(file);
  }
  return chosen;
}

}  // namespace sluice
