// Checkpoint: the weights of a model folder, as one table of named tensors, whatever files hold them.
//
// Opens model.safetensors, or the shards that model.safetensors.index.json lists. Opening maps and checks the files but
// reads no weights. A model binds its weights by name from here and knows nothing about files.
// Thread safety: const after opening.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "formats/safetensors.h"
#include "sluice/status.h"

namespace sluice {

class Checkpoint {
 public:
  // Refuses: a folder without weights, a missing shard, a shard name that leaves the folder, a tensor that the index
  // promises and its shard lacks, and a tensor that two shards hold.
  static Result<Checkpoint> open(const std::string& folder);

  const std::string& folder() const { return folder_; }
  // Sorted by name. The views live as long as the checkpoint (moving it keeps them valid).
  const std::vector<const TensorView*>& tensors() const { return tensors_; }
  const TensorView* find(std::string_view name) const;
  std::size_t total_bytes() const { return total_bytes_; }
  const std::vector<std::unique_ptr<SafetensorsFile>>& files() const { return files_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  Checkpoint() = default;
  Status open_index(const std::string& index_path);
  Status open_shard(const std::string& name);
  Status build_table();

  std::string folder_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::vector<const TensorView*> tensors_;
  std::map<std::string, std::string> metadata_;
  std::size_t total_bytes_ = 0;
};

}  // namespace sluice
