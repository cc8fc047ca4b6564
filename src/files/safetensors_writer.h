// Writes safetensors files and sharded checkpoints as a stream: no tensor need be in memory as a whole.
//
// A file appears under its name only when it is complete (it is written under another name and renamed). Thread safety:
// functions without shared state; producers are called on the caller's thread.
// Used by cli/commands/logits_command.cc, cli/commands/score_command.cc, files/gguf/gguf_writer.h and
// model/weights/synth_sources.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/formats/dtype.h"
#include "sluice/status.h"

namespace sluice {

// A tensor to write: its bytes are either at `data`, or made piece by piece by `produce`.
struct TensorSource {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> data;
  // Fills `chunk`, the bytes [offset, offset + chunk.size()) of the tensor. Called in ascending order without gaps;
  // every offset is a multiple of 1 MiB. Used when set; `data` must then be empty.
  std::function<Status(std::size_t offset, std::span<std::byte> chunk)> produce;
};

class PendingFile;

// For writers of any format: how long the tensor is, which `data` has to be; and its bytes, `chunk` at a time.
Result<std::size_t> bytes_of(const TensorSource& tensor);
Status write_bytes(PendingFile& file, const TensorSource& tensor, std::size_t bytes, std::size_t chunk,
                   std::vector<std::byte>& buffer, const std::function<void(std::size_t)>& written);

using Metadata = std::map<std::string, std::string>;
// Called now and then with the bytes written so far and in all.
using WriteProgress = std::function<void(std::size_t done, std::size_t total)>;

// Tensors of wider dtypes come first, so that each one is aligned; else they keep their order.
Status write_safetensors(const std::string& path, const std::vector<TensorSource>& tensors,
                         const Metadata& metadata = {}, const WriteProgress& progress = {});

// Writes model.safetensors, or model-00001-of-0000N.safetensors ... with model.safetensors.index.json when the tensors
// exceed `max_shard_bytes` (a single larger tensor gets its own shard). Tensors keep their order across shards. The
// folder is created; one that already holds weights is refused.
Status write_checkpoint(const std::string& folder, const std::vector<TensorSource>& tensors,
                        std::size_t max_shard_bytes, const WriteProgress& progress = {});

}  // namespace sluice
