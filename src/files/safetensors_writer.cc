// Used by cli/commands/logits_command.cc, cli/commands/score_command.cc, files/gguf/gguf_writer.h and
// model/weights/synth_sources.h.
#include "files/safetensors_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/string.hpp>
#include <filesystem>
#include <set>

#include "base/storage/pending_file.h"
#include "files/json.h"
#include "files/safetensors.h"

namespace sluice {
namespace {

namespace json = boost::json;

constexpr std::size_t kChunkBytes = std::size_t{4} << 20;  // a multiple of 1 MiB, see TensorSource::produce
constexpr std::size_t kHeaderAlignment = 8;

// A tensor with what the header says of it.
struct Placed {
  const TensorSource* source = nullptr;
  std::size_t bytes = 0;
};

Result<std::vector<Placed>> place(const std::vector<TensorSource>& tensors) {
  std::vector<Placed> placed;
  std::set<std::string_view> names;
  for (const TensorSource& tensor : tensors) {
    SLUICE_ASSIGN_OR_RETURN(const std::size_t bytes, bytes_of(tensor));
    if (tensor.name == "__metadata__" || !names.insert(tensor.name).second) {
      return invalid_argument(fmt::format("tensor {}: the name is taken", tensor.name));
    }
    placed.push_back({&tensor, bytes});
  }
  return placed;
}

std::size_t sum_of_bytes(std::span<const Placed> tensors) {
  std::size_t total = 0;
  for (const Placed& tensor : tensors) total += tensor.bytes;
  return total;
}

std::string header_text(std::span<const Placed> tensors, const Metadata& metadata) {
  json::object header;
  if (!metadata.empty()) {
    json::object entries;
    for (const auto& [key, text] : metadata) entries[key] = text;
    header["__metadata__"] = std::move(entries);
  }
  std::size_t offset = 0;
  for (const Placed& tensor : tensors) {
    header[tensor.source->name] = {{"dtype", json::string(dtype_name(tensor.source->dtype))},
                                   {"shape", json::array(tensor.source->shape.begin(), tensor.source->shape.end())},
                                   {"data_offsets", {offset, offset + tensor.bytes}}};
    offset += tensor.bytes;
  }
  std::string text = dump_json(header);
  text.resize((text.size() + kHeaderAlignment - 1) / kHeaderAlignment * kHeaderAlignment, ' ');
  return text;
}

// Reports the bytes written by all files of one call.
class Progress {
 public:
  Progress(const WriteProgress& callback, std::size_t total) : callback_(callback), total_(total) {}
  void add(std::size_t bytes) {
    done_ += bytes;
    if (callback_) callback_(done_, total_);
  }

 private:
  const WriteProgress& callback_;
  std::size_t done_ = 0;
  std::size_t total_ = 0;
};

Status write_file(const std::string& path, std::vector<Placed> tensors, const Metadata& metadata, Progress& progress) {
  std::ranges::stable_sort(tensors, std::greater<>(),
                           [](const Placed& tensor) { return dtype_alignment(tensor.source->dtype); });
  const std::string header = header_text(tensors, metadata);
  if (header.size() > kMaxSafetensorsHeaderBytes) {
    return invalid_argument(fmt::format("{}: expected a header of at most {} bytes, found {}; write smaller shards",
                                        path, kMaxSafetensorsHeaderBytes, header.size()));
  }
  SLUICE_ASSIGN_OR_RETURN(PendingFile file, PendingFile::create(path));
  const std::uint64_t length = header.size();
  SLUICE_RETURN_IF_ERROR(file.write(std::as_bytes(std::span(&length, 1))));
  SLUICE_RETURN_IF_ERROR(file.write(std::as_bytes(std::span(header))));
  std::vector<std::byte> buffer;
  const auto add = [&progress](std::size_t bytes) { progress.add(bytes); };
  for (const Placed& tensor : tensors) {
    SLUICE_RETURN_IF_ERROR(write_bytes(file, *tensor.source, tensor.bytes, kChunkBytes, buffer, add));
  }
  return file.finish();
}

std::vector<std::vector<Placed>> split_into_shards(const std::vector<Placed>& tensors, std::size_t max_shard_bytes) {
  std::vector<std::vector<Placed>> shards(1);
  std::size_t shard_bytes = 0;
  for (const Placed& tensor : tensors) {
    if (!shards.back().empty() && tensor.bytes > max_shard_bytes - std::min(shard_bytes, max_shard_bytes)) {
      shards.emplace_back();
      shard_bytes = 0;
    }
    shards.back().push_back(tensor);
    shard_bytes += tensor.bytes;
  }
  return shards;
}

// Creates the folder, and refuses one with weights, which would mix with the new ones.
Status prepare_folder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return invalid_argument(fmt::format("{}: cannot be created: {}", folder, error.message()));
  std::filesystem::directory_iterator entries(folder, error);
  if (error) return invalid_argument(fmt::format("{}: cannot be listed: {}", folder, error.message()));
  for (; !error && entries != std::filesystem::directory_iterator(); entries.increment(error)) {
    const std::string name = entries->path().filename().string();
    if (name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json")) {
      return invalid_argument(
          fmt::format("{}: expected a folder without weights, found {}; choose another folder or "
                      "remove it",
                      folder, name));
    }
  }
  return {};
}

Status write_index(const std::string& path, const std::map<std::string, std::string>& shard_of, std::size_t total) {
  json::object weight_map;
  for (const auto& [tensor, shard] : shard_of) weight_map[tensor] = shard;
  const json::value index = {{"metadata", {{"total_size", total}}}, {"weight_map", std::move(weight_map)}};
  const std::string text = dump_json(index) + "\n";
  SLUICE_ASSIGN_OR_RETURN(PendingFile file, PendingFile::create(path));
  SLUICE_RETURN_IF_ERROR(file.write(std::as_bytes(std::span(text))));
  return file.finish();
}

}  // namespace

Result<std::size_t> bytes_of(const TensorSource& tensor) {
  Result<std::size_t> bytes = tensor_bytes(tensor.dtype, tensor.shape);
  if (!bytes.ok()) return bytes.status().with_context("tensor " + tensor.name);
  if (tensor.produce || tensor.data.size() == *bytes) return bytes;
  return invalid_argument(fmt::format("tensor {}: expected {} bytes for {} {}, found {}", tensor.name, *bytes,
                                      dtype_name(tensor.dtype), shape_text(tensor.shape), tensor.data.size()));
}

Status write_bytes(PendingFile& file, const TensorSource& tensor, std::size_t bytes, std::size_t chunk,
                   std::vector<std::byte>& buffer, const std::function<void(std::size_t)>& written) {
  for (std::size_t offset = 0; offset < bytes; offset += chunk) {
    const std::size_t size = std::min(chunk, bytes - offset);
    if (tensor.produce) {
      buffer.resize(chunk);
      const std::span<std::byte> piece(buffer.data(), size);
      SLUICE_RETURN_IF_ERROR(tensor.produce(offset, piece).with_context("tensor " + tensor.name));
      SLUICE_RETURN_IF_ERROR(file.write(piece));
    } else {
      SLUICE_RETURN_IF_ERROR(file.write(tensor.data.subspan(offset, size)));
    }
    written(size);
  }
  return {};
}

Status write_safetensors(const std::string& path, const std::vector<TensorSource>& tensors, const Metadata& metadata,
                         const WriteProgress& progress) {
  SLUICE_ASSIGN_OR_RETURN(std::vector<Placed> placed, place(tensors));
  Progress done(progress, sum_of_bytes(placed));
  return write_file(path, std::move(placed), metadata, done);
}

Status write_checkpoint(const std::string& folder, const std::vector<TensorSource>& tensors,
                        std::size_t max_shard_bytes, const WriteProgress& progress) {
  SLUICE_RETURN_IF_ERROR(prepare_folder(folder));
  SLUICE_ASSIGN_OR_RETURN(const std::vector<Placed> placed, place(tensors));
  const std::size_t total = sum_of_bytes(placed);
  Progress done(progress, total);
  const Metadata metadata = {{"format", "pt"}};
  const std::vector<std::vector<Placed>> shards = split_into_shards(placed, max_shard_bytes);
  if (shards.size() == 1) return write_file(folder + "/model.safetensors", shards[0], metadata, done);
  std::map<std::string, std::string> shard_of;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string name = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    SLUICE_RETURN_IF_ERROR(write_file(folder + "/" + name, shards[i], metadata, done));
    for (const Placed& tensor : shards[i]) shard_of[tensor.source->name] = name;
  }
  return write_index(folder + "/model.safetensors.index.json", shard_of, total);
}

}  // namespace sluice
