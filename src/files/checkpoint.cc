// Used by cli/commands, model, model/packing and model/weights.
#include "files/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/storage/mapped_file.h"
#include "files/gguf/gguf_tensors.h"
#include "files/model_path.h"
#include "files/weight_files.h"

namespace sluice {
namespace {

constexpr std::string_view kBasePrefix = "model.";

}  // namespace

Result<Checkpoint> Checkpoint::open(const std::string& path, GgufNaming naming) {
  Checkpoint checkpoint;
  checkpoint.path_ = path;
  SLUICE_RETURN_IF_ERROR(is_gguf_path(path) ? checkpoint.open_gguf(naming) : checkpoint.open_folder());
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

Status Checkpoint::open_folder() {
  SLUICE_ASSIGN_OR_RETURN(const WeightFiles found, find_weight_files(path_));
  note_ = found.note;
  for (const std::string& name : found.names) {
    const Status opened = open_shard(name);
    if (!opened.ok()) return found.index.empty() ? opened : opened.with_context(found.index);
  }
  SLUICE_RETURN_IF_ERROR(sort_table());
  for (const auto& [tensor, shard] : found.weight_map) {
    const TensorView* view = find_exactly(tensor);
    if (view != nullptr && view->file == std::string_view(shard).substr(shard.rfind('/') + 1)) continue;
    return invalid_argument(fmt::format("{}: tensor {}: expected in {}, found {}", found.index, tensor, shard,
                                        view == nullptr ? "in no shard" : "in " + std::string(view->file)));
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
  const TensorView* found = find_exactly(name);
  if (found != nullptr || !name.starts_with(kBasePrefix)) return found;
  return find_exactly(name.substr(kBasePrefix.size()));
}

const TensorView* Checkpoint::find_exactly(std::string_view name) const {
  const auto found = std::ranges::lower_bound(
      tensors_, name, {}, [](const TensorView* tensor) -> std::string_view { return tensor->name; });
  return found != tensors_.end() && (*found)->name == name ? *found : nullptr;
}

}  // namespace sluice
