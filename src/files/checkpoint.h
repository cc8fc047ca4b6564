// Checkpoint: the weights of a model, as one table of named tensors, whatever files hold them.
//
// Opens the safetensors files of a folder (files/weight_files.h), or a GGUF file, whose tensors get the
// names and shapes that they have in the family's official checkpoints. Opening maps and checks the files but reads no
// weights. A model binds its weights by name from here and knows nothing about files.
// Thread safety: const after opening, except for keep().
// Used by cli/commands, model, model/packing and model/weights.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/aligned.h"
#include "base/threads/thread_pool.h"
#include "files/gguf/gguf_names.h"
#include "files/made_tensors.h"
#include "files/safetensors.h"
#include "files/served_files.h"
#include "sluice/status.h"

namespace sluice {

class GgufTensors;

class Checkpoint {
 public:
  // `path`: a model folder, or a GGUF file (files/model_path.h), whose tensors get the names that `naming` gives them
  // (gguf_names of config/gguf/gguf_config.h serves all families); without it they keep the file's names.
  // Refuses all that the readers of its files refuse, a folder without weights, a missing shard and a shard name that
  // leaves the folder. It also refuses a tensor that the index lists and its shard lacks, and a tensor that two shards
  // hold.
  static Result<Checkpoint> open(const std::string& path, GgufNaming naming = nullptr);
  // A checkpoint of tensors that are made; `path` names it in messages, `version` what its bytes depend on.
  static Checkpoint of(MadeTensors tensors, std::string path, std::string version);
  // Without tensors: for a model that is planned, not loaded.
  static Checkpoint none() { return {}; }

  const std::string& path() const { return path_; }
  // Sorted by name. The views live as long as the checkpoint (moving it keeps them valid).
  const std::vector<const TensorView*>& tensors() const { return tensors_; }
  // A file that was saved from the base model has its names without "model.": where "model.norm.weight" is not found,
  // "norm.weight" is it.
  const TensorView* find(std::string_view name) const;
  bool is_gguf() const { return gguf_ != nullptr; }
  // Something worth a line to the user; usually empty.
  const std::string& note() const { return note_; }
  std::size_t total_bytes() const { return total_bytes_; }
  // The safetensors files.
  const std::vector<std::unique_ptr<SafetensorsFile>>& files() const { return files_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  // Bytes of one tensor that are about to be read, and that will not be for a while. Files need neither.
  void bring(std::span<const std::byte> bytes, ThreadPool& pool) const;
  void leave(std::span<const std::byte> bytes) const;
  // For made tensors: what their bytes depend on. Else empty, as the files tell.
  const std::string& version() const { return version_; }

  // All its files, always in the same order.
  std::vector<const MappedFile*> mappings() const;

  // Begins to watch all its files, which a model is about to be computed from; null before.
  void serve();
  const std::shared_ptr<ServedFiles>& served() const { return served_; }

  // Keeps bytes that were made from tensors for as long as the checkpoint lives, and returns them.
  const std::byte* keep(AlignedBytes bytes);
  void keep(std::shared_ptr<const void> what) { kept_alive_.push_back(std::move(what)); }

 private:
  Checkpoint() = default;
  const TensorView* find_exactly(std::string_view name) const;
  Status open_folder();
  Status open_shard(const std::string& name);
  Status open_gguf(GgufNaming naming);
  void add(const std::vector<TensorView>& tensors);
  Status sort_table();

  std::string path_, note_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::shared_ptr<const GgufTensors> gguf_;
  std::shared_ptr<const MadeTensors> made_;
  std::string version_;
  std::shared_ptr<ServedFiles> served_;
  std::vector<AlignedBytes> kept_;
  std::vector<std::shared_ptr<const void>> kept_alive_;
  std::vector<const TensorView*> tensors_;
  std::map<std::string, std::string> metadata_;
  std::size_t total_bytes_ = 0;
};

}  // namespace sluice
