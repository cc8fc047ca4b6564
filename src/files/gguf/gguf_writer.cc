// Used by cli/commands/synth_gguf.h and gguf_file.cc.
#include "files/gguf/gguf_writer.h"

#include <fmt/format.h>

#include <set>

#include "base/storage/pending_file.h"
#include "files/gguf/gguf_types.h"
#include "files/tensor_view.h"

namespace sluice {
namespace {

constexpr std::size_t kChunkBlocks = 65536;

std::uint64_t padding(std::uint64_t size) {
  return (kGgufAlignment - size % kGgufAlignment) % kGgufAlignment;
}

}  // namespace

std::string GgufEncoding::texts(const std::vector<std::string>& values) {
  std::string elements;
  for (const std::string& value : values) elements += text(value);
  return array(GgufType::kString, values.size(), elements);
}

std::string GgufEncoding::tensor_entry(std::string_view name, const std::vector<std::uint64_t>& dims,
                                       std::uint32_t type, std::uint64_t offset) {
  std::string entry = text(name) + number(static_cast<std::uint32_t>(dims.size()));
  for (const std::uint64_t size : dims) entry += number(size);
  return entry + number(type) + number(offset);
}

GgufEntries& GgufEntries::entry(std::string_view key, GgufType type, std::string_view value) {
  bytes_ += GgufEncoding::text(key) + GgufEncoding::number(static_cast<std::uint32_t>(type));
  bytes_ += value;
  ++count_;
  return *this;
}

GgufEntries& GgufEntries::i32s(std::string_view key, const std::vector<std::int32_t>& values) {
  std::string elements;
  for (const std::int32_t value : values) elements += GgufEncoding::number(value);
  return entry(key, GgufType::kArray, GgufEncoding::array(GgufType::kInt32, values.size(), elements));
}

Status write_gguf(const std::string& path, const GgufEntries& metadata, const std::vector<TensorSource>& tensors,
                  const WriteProgress& progress) {
  std::string table = GgufEncoding::head(kGgufVersion, tensors.size(), metadata.count()) + metadata.bytes();
  std::set<std::string_view> names;
  std::vector<std::size_t> sizes;
  std::uint64_t end = 0;
  for (const TensorSource& tensor : tensors) {
    SLUICE_ASSIGN_OR_RETURN(const std::size_t bytes, bytes_of(tensor));
    const std::optional<std::uint32_t> type = gguf_tensor_code(tensor.dtype);
    if (!type || tensor.shape.size() > kGgufMaxDimensions || tensor.name.size() > kGgufMaxNameBytes ||
        !names.insert(tensor.name).second) {
      return invalid_argument(fmt::format(
          "tensor {}: expected a name of its own of at most {} bytes, at most {} dimensions and a type that GGUF files "
          "have, found {} {}",
          tensor.name, kGgufMaxNameBytes, kGgufMaxDimensions, dtype_name(tensor.dtype), shape_text(tensor.shape)));
    }
    table += GgufEncoding::tensor_entry(tensor.name, {tensor.shape.rbegin(), tensor.shape.rend()}, *type, end);
    sizes.push_back(bytes);
    end += bytes + padding(bytes);
  }
  table.resize(table.size() + padding(table.size()), '\0');

  SLUICE_ASSIGN_OR_RETURN(PendingFile file, PendingFile::create(path));
  SLUICE_RETURN_IF_ERROR(file.write(std::as_bytes(std::span(table))));
  std::vector<std::byte> buffer;
  std::size_t done = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::size_t chunk = kChunkBlocks * static_cast<std::size_t>(dtype_block(tensors[i].dtype).bytes);
    SLUICE_RETURN_IF_ERROR(write_bytes(file, tensors[i], sizes[i], chunk, buffer, [&](std::size_t bytes) {
      done += bytes;
      if (progress) progress(done, end);
    }));
    SLUICE_RETURN_IF_ERROR(file.write(std::vector<std::byte>(padding(sizes[i]))));
  }
  return file.finish();
}

}  // namespace sluice
