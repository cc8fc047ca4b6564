// Used by checkpoint.h, cli/commands/inspect_text.cc and safetensors_writer.cc.
#include "files/safetensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/string.hpp>
#include <cstring>
#include <optional>
#include <utility>

#include "base/storage/file_form.h"
#include "files/json.h"

namespace sluice {
namespace {

namespace json = boost::json;

constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kMaxDimensions = 16;
constexpr std::byte kNoData{};  // tensors of an empty payload point here

std::optional<std::uint64_t> as_size(const json::value& value) {
  if (value.is_uint64()) return value.get_uint64();
  if (value.is_int64() && value.get_int64() >= 0) return static_cast<std::uint64_t>(value.get_int64());
  return std::nullopt;
}

// A size or offset list of a tensor's entry.
Result<std::vector<std::uint64_t>> read_sizes(const json::object& entry, std::string_view key) {
  const json::value* value = entry.if_contains(key);
  const auto failure = [&] {
    return invalid_argument(
        fmt::format("key '{}': expected a list of non-negative integers, found {}", key, describe_json(value)));
  };
  if (value == nullptr || !value->is_array()) return failure();
  std::vector<std::uint64_t> sizes;
  for (const json::value& item : value->get_array()) {
    const std::optional<std::uint64_t> size = as_size(item);
    if (!size) return failure();
    sizes.push_back(*size);
  }
  return sizes;
}

Result<DType> read_dtype(const json::object& entry) {
  const json::value* value = entry.if_contains("dtype");
  if (value != nullptr && value->is_string()) {
    if (const std::optional<DType> dtype = dtype_from_name(value->get_string())) return *dtype;
  }
  std::vector<std::string_view> known;
  for (int i = 0; i < kDTypeCount; ++i) known.push_back(dtype_name(static_cast<DType>(i)));
  return invalid_argument(
      fmt::format("key 'dtype': expected one of {}, found {}", fmt::join(known, ", "), describe_json(value)));
}

Result<std::vector<std::int64_t>> read_shape(const json::object& entry) {
  SLUICE_ASSIGN_OR_RETURN(const std::vector<std::uint64_t> sizes, read_sizes(entry, "shape"));
  if (sizes.size() > kMaxDimensions) {
    return invalid_argument(fmt::format("expected at most {} dimensions, found {}", kMaxDimensions, sizes.size()));
  }
  std::vector<std::int64_t> shape;
  for (const std::uint64_t size : sizes) {
    if (size > static_cast<std::uint64_t>(INT64_MAX)) {
      return invalid_argument(fmt::format("expected sizes below 2^63, found {}", size));
    }
    shape.push_back(static_cast<std::int64_t>(size));
  }
  return shape;
}

// One entry of the header; `payload` is what follows the header.
Result<TensorView> read_tensor(const json::value& value, std::span<const std::byte> payload) {
  if (!value.is_object()) {
    return invalid_argument(fmt::format("expected an object, found {}", describe_json(&value)));
  }
  const json::object& entry = value.get_object();
  TensorView tensor;
  SLUICE_ASSIGN_OR_RETURN(tensor.dtype, read_dtype(entry));
  SLUICE_ASSIGN_OR_RETURN(tensor.shape, read_shape(entry));
  SLUICE_ASSIGN_OR_RETURN(const std::vector<std::uint64_t> offsets, read_sizes(entry, "data_offsets"));
  if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > payload.size()) {
    return invalid_argument(fmt::format("expected data_offsets [begin, end] with begin <= end <= {}, found {}",
                                        payload.size(), describe_json(entry.if_contains("data_offsets"))));
  }
  SLUICE_ASSIGN_OR_RETURN(tensor.bytes, tensor_bytes(tensor.dtype, tensor.shape));
  if (tensor.bytes != offsets[1] - offsets[0]) {
    return invalid_argument(fmt::format("expected {} bytes for {} {}, found data_offsets of {}", tensor.bytes,
                                        dtype_name(tensor.dtype), shape_text(tensor.shape), offsets[1] - offsets[0]));
  }
  tensor.data = payload.data() == nullptr ? &kNoData : payload.data() + offsets[0];
  return tensor;
}

Status read_metadata(const json::value& value, std::map<std::string, std::string>& metadata) {
  const auto failure = invalid_argument(
      fmt::format("key '__metadata__': expected an object of strings, found {}", describe_json(&value)));
  if (!value.is_object()) return failure;
  for (const auto& [key, text] : value.get_object()) {
    if (!text.is_string()) return failure;
    metadata.emplace(key, text.get_string());
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<SafetensorsFile>> SafetensorsFile::open(const std::string& path) {
  SLUICE_ASSIGN_OR_RETURN(MappedFile mapped, MappedFile::open(path));
  std::unique_ptr<SafetensorsFile> file(new SafetensorsFile());
  file->file_ = std::move(mapped);
  file->file_name_ = path.substr(path.rfind('/') + 1);
  SLUICE_RETURN_IF_ERROR(file->read_header().with_context(path));
  file->align_tensors();
  return file;
}

namespace {

Status other_form(std::string_view form) {
  return invalid_argument(fmt::format("expected a safetensors file, found {}", form));
}

}  // namespace

Status SafetensorsFile::read_header() {
  const std::span<const std::byte> bytes = file_.bytes();
  if (bytes.size() < kLengthBytes) {
    return invalid_argument(fmt::format("expected a safetensors file, found only {} bytes", bytes.size()));
  }
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);  // little-endian, as every machine this builds for
  // Only where it cannot be a header's length: some lengths begin as other forms do.
  const std::string_view form = foreign_form({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (length > kMaxSafetensorsHeaderBytes || length > bytes.size() - kLengthBytes) {
    if (!form.empty()) return other_form(form);
    return invalid_argument(
        fmt::format("expected a header of at most {} bytes, found a length of {}; not a safetensors file, or truncated",
                    std::min(kMaxSafetensorsHeaderBytes, bytes.size() - kLengthBytes), length));
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length);
  if (!text.starts_with('{') && !form.empty()) return other_form(form);
  if (!text.starts_with('{')) return invalid_argument("expected a header that begins with '{'; not a safetensors file");
  SLUICE_ASSIGN_OR_RETURN(const json::value header, parse_json(text, "header"));
  const std::span<const std::byte> payload = bytes.subspan(kLengthBytes + length);
  for (const auto& [key, value] : header.get_object()) {
    if (key == "__metadata__") {
      SLUICE_RETURN_IF_ERROR(read_metadata(value, metadata_));
      continue;
    }
    Result<TensorView> tensor = read_tensor(value, payload);
    if (!tensor.ok()) return tensor.status().with_context("tensor " + std::string(key));
    tensor->name = std::string(key);
    tensor->file = file_name_;
    tensors_.push_back(std::move(*tensor));
  }
  std::ranges::sort(tensors_, {}, &TensorView::name);
  return check_no_overlaps(tensors_);
}

void SafetensorsFile::align_tensors() {
  for (TensorView& tensor : tensors_) {
    const auto alignment = static_cast<std::size_t>(dtype_alignment(tensor.dtype));
    if (reinterpret_cast<std::uintptr_t>(tensor.data) % alignment == 0) continue;
    aligned_copies_.push_back(std::make_unique_for_overwrite<std::byte[]>(tensor.bytes));
    std::memcpy(aligned_copies_.back().get(), tensor.data, tensor.bytes);
    tensor.data = aligned_copies_.back().get();
  }
}

const TensorView* SafetensorsFile::find(std::string_view name) const {
  const auto found = std::ranges::lower_bound(tensors_, name, {}, &TensorView::name);
  return found != tensors_.end() && found->name == name ? &*found : nullptr;
}

}  // namespace sluice
