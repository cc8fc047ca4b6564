#include "files/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/string.hpp>
#include <filesystem>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/mapped_file.h"
#include "files/gguf_tensors.h"
#include "files/json.h"

namespace sluice {
namespace {

namespace json = boost::json;

constexpr std::string_view kSingleFile = "model.safetensors";
constexpr std::string_view kIndexFile = "model.safetensors.index.json";

bool exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

// A shard lies in the folder itself: a name with a path in it could read any file of the machine.
Status check_shard_name(std::string_view name) {
  if (!name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos &&
      name.find('\\') == std::string_view::npos && name.find('\0') == std::string_view::npos) {
    return {};
  }
  std::string quoted;
  append_json_string(quoted, name);
  return invalid_argument(fmt::format("weight_map: expected the name of a file in the same folder, found {}", quoted));
}

using WeightMap = std::map<std::string, std::string>;  // tensor -> shard

Result<WeightMap> read_weight_map(const std::string& index_path) {
  SLUICE_ASSIGN_OR_RETURN(const std::string text, read_text_file(index_path));
  SLUICE_ASSIGN_OR_RETURN(const json::value index, parse_json(text, index_path));
  const json::value* map = index.is_object() ? index.get_object().if_contains("weight_map") : nullptr;
  if (map == nullptr || !map->is_object()) {
    return invalid_argument(fmt::format("{}: key 'weight_map': expected an object of tensor names and files, found {}",
                                        index_path, describe_json(map)));
  }
  WeightMap weight_map;
  for (const auto& [tensor, shard] : map->get_object()) {
    if (!shard.is_string()) {
      return invalid_argument(fmt::format("{}: weight_map: tensor {}: expected a file name, found {}", index_path,
                                          std::string_view(tensor), describe_json(&shard)));
    }
    SLUICE_RETURN_IF_ERROR(check_shard_name(shard.get_string()).with_context(index_path));
    weight_map.emplace(tensor, shard.get_string());
  }
  if (weight_map.empty()) return invalid_argument(fmt::format("{}: weight_map: it names no tensor", index_path));
  return weight_map;
}

}  // namespace

Result<Checkpoint> Checkpoint::open(const std::string& path, GgufNaming naming) {
  Checkpoint checkpoint;
  checkpoint.path_ = path;
  const std::string index_path = fmt::format("{}/{}", path, kIndexFile);
  if (is_gguf_path(path)) {
    SLUICE_RETURN_IF_ERROR(checkpoint.open_gguf(naming));
  } else if (exists(fmt::format("{}/{}", path, kSingleFile))) {
    SLUICE_RETURN_IF_ERROR(checkpoint.open_shard(std::string(kSingleFile)));
    SLUICE_RETURN_IF_ERROR(checkpoint.sort_table());
  } else if (exists(index_path)) {
    SLUICE_RETURN_IF_ERROR(checkpoint.open_index(index_path));
  } else {
    return not_found(fmt::format(
        "{}: expected a model folder with {} or {}, or a .gguf file, found none of them (--load-format dummy makes "
        "random weights)",
        path, kSingleFile, kIndexFile));
  }
  return checkpoint;
}

Checkpoint Checkpoint::of(MadeTensors tensors, std::string path, std::string version) {
  Checkpoint checkpoint;
  checkpoint.path_ = std::move(path);
  checkpoint.version_ = std::move(version);
  checkpoint.made_ = std::make_shared<const MadeTensors>(std::move(tensors));
  checkpoint.add(checkpoint.made_->tensors());
  checkpoint.total_bytes_ = checkpoint.made_->bytes();
  SLUICE_CHECK(checkpoint.sort_table().ok(), "made tensors have names of their own");
  return checkpoint;
}

void Checkpoint::bring(std::span<const std::byte> bytes, ThreadPool& pool) const {
  if (made_ != nullptr) made_->bring(bytes, pool);
}

void Checkpoint::leave(std::span<const std::byte> bytes) const {
  if (made_ != nullptr) made_->leave(bytes);
}

Status Checkpoint::open_index(const std::string& index_path) {
  SLUICE_ASSIGN_OR_RETURN(const WeightMap weight_map, read_weight_map(index_path));
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : weight_map) shards.insert(shard);
  for (const std::string& shard : shards) SLUICE_RETURN_IF_ERROR(open_shard(shard).with_context(index_path));
  SLUICE_RETURN_IF_ERROR(sort_table());
  for (const auto& [tensor, shard] : weight_map) {
    const TensorView* found = find(tensor);
    if (found != nullptr && found->file == shard) continue;
    return invalid_argument(fmt::format("{}: tensor {}: expected in {}, found {}", index_path, tensor, shard,
                                        found == nullptr ? "in no shard" : "in " + std::string(found->file)));
  }
  return {};
}

Status Checkpoint::open_shard(const std::string& name) {
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<SafetensorsFile> file, SafetensorsFile::open(path_ + "/" + name));
  metadata_.insert(file->metadata().begin(), file->metadata().end());
  add(file->tensors());
  files_.push_back(std::move(file));
  return {};
}

Status Checkpoint::open_gguf(GgufNaming naming) {
  SLUICE_ASSIGN_OR_RETURN(gguf_, GgufTensors::open(path_, naming));
  add(gguf_->tensors());
  return sort_table();
}

void Checkpoint::add(const std::vector<TensorView>& tensors) {
  for (const TensorView& tensor : tensors) {
    tensors_.push_back(&tensor);
    total_bytes_ += tensor.bytes;
  }
}

std::vector<const MappedFile*> Checkpoint::mappings() const {
  std::vector<const MappedFile*> mappings;
  for (const auto& file : files_) mappings.push_back(&file->mapping());
  if (gguf_ != nullptr) {
    for (const auto& file : gguf_->model().files()) mappings.push_back(&file->mapping());
  }
  return mappings;
}

void Checkpoint::serve() {
  served_ = std::make_shared<ServedFiles>();
  for (const MappedFile* file : mappings()) served_->add(file->share());
}

const std::byte* Checkpoint::keep(AlignedBytes bytes) {
  kept_.push_back(std::move(bytes));
  return kept_.back().data();
}

Status Checkpoint::sort_table() {
  const auto name = [](const TensorView* tensor) -> const std::string& { return tensor->name; };
  std::ranges::stable_sort(tensors_, {}, name);
  const auto twice = std::ranges::adjacent_find(tensors_, {}, name);
  if (twice == tensors_.end()) return {};
  return invalid_argument(fmt::format("{}: tensor {}: expected once, found in {} and {}", path_, (*twice)->name,
                                      (*twice)->file, (*(twice + 1))->file));
}

const TensorView* Checkpoint::find(std::string_view name) const {
  const auto found = std::ranges::lower_bound(
      tensors_, name, {}, [](const TensorView* tensor) -> std::string_view { return tensor->name; });
  return found != tensors_.end() && (*found)->name == name ? *found : nullptr;
}

}  // namespace sluice
