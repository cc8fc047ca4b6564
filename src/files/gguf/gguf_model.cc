// GgufModel: the files of a split model.
// Used by config/gguf, files/gguf and text/vocabulary_files.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "files/gguf/gguf_file.h"

namespace sluice {
namespace {

constexpr std::uint64_t kMaxFiles = 65535;

std::string part_name(std::string_view stem, std::uint64_t part, std::uint64_t count) {
  return fmt::format("{}-{:05}-of-{:05}.gguf", stem, part + 1, count);
}

// Returns a number that says how a model was split; nullopt if the file does not say.
Result<std::optional<std::uint64_t>> split_number(const GgufFile& file, std::string_view key) {
  const auto found = file.metadata().find(key);
  if (found == file.metadata().end()) return std::optional<std::uint64_t>();
  if (const auto* number = std::get_if<std::uint64_t>(&found->second)) return std::optional(*number);
  const auto* number = std::get_if<std::int64_t>(&found->second);
  if (number != nullptr && *number >= 0) return std::optional(static_cast<std::uint64_t>(*number));
  return invalid_argument(fmt::format("{}: key '{}': expected an integer of at least 0, found {}", file.path(), key,
                                      describe_gguf(&found->second)));
}

// Checks that the file is part `part` of `count`.
Status check_part(const GgufFile& file, std::uint64_t part, std::uint64_t count) {
  SLUICE_ASSIGN_OR_RETURN(const auto found_part, split_number(file, "split.no"));
  SLUICE_ASSIGN_OR_RETURN(const auto found_count, split_number(file, "split.count"));
  if (found_part == part && found_count == count) return {};
  const auto shown = [](const std::optional<std::uint64_t>& number) {
    return number ? fmt::format("{}", *number) : std::string("nothing");
  };
  return invalid_argument(
      fmt::format("{}: expected file {} of {} (split.no {}, split.count {}), found split.no {}, split.count {}{}",
                  file.path(), part + 1, count, part, count, shown(found_part), shown(found_count),
                  part == 0 ? "; open the first file of the model" : ""));
}

}  // namespace

Result<std::unique_ptr<GgufModel>> GgufModel::open(const std::string& path) {
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<GgufFile> first, GgufFile::open(path));
  return of(std::move(first));
}

Result<std::unique_ptr<GgufModel>> GgufModel::of(std::unique_ptr<GgufFile> first) {
  std::unique_ptr<GgufModel> model(new GgufModel());
  model->files_.push_back(std::move(first));
  SLUICE_RETURN_IF_ERROR(model->open_others());
  SLUICE_RETURN_IF_ERROR(model->build_table());
  return model;
}

Status GgufModel::open_others() {
  const GgufFile& first = *files_.front();
  SLUICE_ASSIGN_OR_RETURN(const auto count, split_number(first, "split.count"));
  if (!count || *count <= 1) return {};
  if (*count > kMaxFiles) {
    return invalid_argument(
        fmt::format("{}: key 'split.count': expected at most {} files, found {}", path(), kMaxFiles, *count));
  }
  SLUICE_RETURN_IF_ERROR(check_part(first, 0, *count));
  const std::string ending = part_name("", 0, *count);
  if (!path().ends_with(ending)) {
    return invalid_argument(
        fmt::format("{}: this is the first of {} files: expected a name that ends in {}", path(), *count, ending));
  }
  const std::string stem = path().substr(0, path().size() - ending.size());
  for (std::uint64_t part = 1; part < *count; ++part) {
    SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<GgufFile> file, GgufFile::open(part_name(stem, part, *count)));
    SLUICE_RETURN_IF_ERROR(check_part(*file, part, *count));
    files_.push_back(std::move(file));
  }
  std::uint64_t tensors = 0;
  for (const auto& file : files_) tensors += file->tensors().size();
  SLUICE_ASSIGN_OR_RETURN(const auto expected, split_number(first, "split.tensors.count"));
  if (expected && *expected != tensors) {
    return invalid_argument(
        fmt::format("{}: key 'split.tensors.count': expected the number of tensors in all {} files, "
                    "{}, found {}",
                    path(), *count, tensors, *expected));
  }
  return {};
}

Status GgufModel::build_table() {
  for (const auto& file : files_) {
    for (const TensorView& tensor : file->tensors()) tensors_.push_back(&tensor);
  }
  const auto name = [](const TensorView* tensor) -> const std::string& { return tensor->name; };
  std::ranges::stable_sort(tensors_, {}, name);
  const auto twice = std::ranges::adjacent_find(tensors_, {}, name);
  if (twice == tensors_.end()) return {};
  return invalid_argument(fmt::format("{}: tensor {}: expected in one file, found in {} and {}", path(), (*twice)->name,
                                      (*twice)->file, (*(twice + 1))->file));
}

const TensorView* GgufModel::find(std::string_view name) const {
  const auto found = std::ranges::lower_bound(
      tensors_, name, {}, [](const TensorView* tensor) -> std::string_view { return tensor->name; });
  return found != tensors_.end() && (*found)->name == name ? *found : nullptr;
}

}  // namespace sluice
