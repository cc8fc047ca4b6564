// Used by config/gguf, files/gguf and text/vocabulary_files.
#include "files/gguf/gguf_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/storage/file_form.h"
#include "base/utf8.h"
#include "files/gguf/gguf_types.h"
#include "files/gguf/gguf_writer.h"
#include "files/json.h"

namespace sluice {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr std::uint64_t kMinAlignment = 8;
constexpr std::uint64_t kMaxKeyBytes = 65535;
constexpr int kMaxArrayDepth = 4;
// The least that a metadata entry (key length, a byte of key, type, a byte of value) and a tensor's entry can take.
constexpr std::uint64_t kMinEntryBytes = 8 + 1 + 4 + 1, kMinTensorBytes = 8 + 1 + 4 + 4 + 8;
constexpr std::byte kNoTensorData{};  // tensors without elements point here

std::string in_quotes(std::string_view text) {
  const boost::json::value value(text);
  return describe_json(&value);
}

// A name to be shown in messages and tables: not empty, valid UTF-8, no control characters.
bool is_printable(std::string_view text) {
  return !text.empty() && valid_utf8_prefix(text) == text.size() &&
         std::ranges::none_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
}

// Reads a file front to back; every read is checked against what is left.
class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::size_t offset() const { return offset_; }
  std::size_t left() const { return bytes_.size() - offset_; }

  Result<std::span<const std::byte>> take(std::uint64_t count, std::string_view what) {
    if (count > left()) {
      return invalid_argument(
          fmt::format("offset {}: expected {} bytes of {}, found only {}; the file is truncated or "
                      "damaged",
                      offset_, count, what, left()));
    }
    const auto taken = bytes_.subspan(offset_, static_cast<std::size_t>(count));
    offset_ += taken.size();
    return taken;
  }

  template <class Number>
  Status read(Number& number, std::string_view what) {
    SLUICE_ASSIGN_OR_RETURN(const auto bytes, take(sizeof(Number), what));
    std::memcpy(&number, bytes.data(), sizeof(Number));  // little-endian, as every machine this builds for
    return {};
  }

  // Reads a length and this many bytes of UTF-8.
  Result<std::string_view> read_text(std::string_view what) {
    const std::size_t start = offset_;
    std::uint64_t length = 0;
    SLUICE_RETURN_IF_ERROR(read(length, what));
    SLUICE_ASSIGN_OR_RETURN(const auto bytes, take(length, what));
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (valid_utf8_prefix(text) != text.size()) {
      return invalid_argument(fmt::format("offset {}: expected {} in UTF-8, found other bytes", start, what));
    }
    return text;
  }

  // Reads a number of things of which each takes at least `least` bytes.
  Status read_count(std::uint64_t& count, std::uint64_t least, std::string_view what) {
    const std::size_t start = offset_;
    SLUICE_RETURN_IF_ERROR(read(count, what));
    if (count <= left() / least) return {};
    return invalid_argument(fmt::format(
        "offset {}: expected at most {} {} in the {} bytes that follow, found {}; the file is truncated or damaged",
        start, left() / least, what, left(), count));
  }

 private:
  std::span<const std::byte> bytes_;
  std::size_t offset_ = 0;
};

Result<GgufType> read_type(Cursor& cursor) {
  const std::size_t start = cursor.offset();
  std::uint32_t code = 0;
  SLUICE_RETURN_IF_ERROR(cursor.read(code, "a value type"));
  if (code < kGgufTypeCount) return static_cast<GgufType>(code);
  return invalid_argument(
      fmt::format("offset {}: expected a value type from 0 to {}, found {}", start, kGgufTypeCount - 1, code));
}

Status check_bools(std::span<const std::byte> bytes, std::size_t offset) {
  const auto wrong = std::ranges::find_if(bytes, [](std::byte b) { return b > std::byte{1}; });
  if (wrong == bytes.end()) return {};
  return invalid_argument(fmt::format("offset {}: expected a boolean, 0 or 1, found {}",
                                      offset + static_cast<std::size_t>(wrong - bytes.begin()),
                                      static_cast<unsigned>(*wrong)));
}

Result<GgufArray> read_array(Cursor& cursor, int depth) {
  if (depth > kMaxArrayDepth) {
    return invalid_argument(
        fmt::format("offset {}: expected arrays nested at most {} deep, found more", cursor.offset(), kMaxArrayDepth));
  }
  GgufArray array;
  SLUICE_ASSIGN_OR_RETURN(array.type, read_type(cursor));
  const std::size_t each = gguf_type_bytes(array.type);
  const std::size_t least = each > 0 ? each : (array.type == GgufType::kString ? 8 : 12);
  std::uint64_t count = 0;
  SLUICE_RETURN_IF_ERROR(cursor.read_count(count, least, "array elements"));
  array.size = static_cast<std::size_t>(count);
  if (each > 0) {
    const std::size_t start = cursor.offset();
    SLUICE_ASSIGN_OR_RETURN(array.numbers, cursor.take(count * each, "array elements"));
    if (array.type == GgufType::kBool) SLUICE_RETURN_IF_ERROR(check_bools(array.numbers, start));
    return array;
  }
  if (array.type == GgufType::kString) array.strings.reserve(array.size);
  for (std::size_t i = 0; i < array.size; ++i) {
    if (array.type == GgufType::kString) {
      SLUICE_ASSIGN_OR_RETURN(const std::string_view text, cursor.read_text("a string"));
      array.strings.push_back(text);
    } else {
      SLUICE_RETURN_IF_ERROR(read_array(cursor, depth + 1).status());
    }
  }
  return array;
}

Result<GgufValue> read_value(Cursor& cursor, GgufType type) {
  if (type == GgufType::kString) {
    SLUICE_ASSIGN_OR_RETURN(const std::string_view text, cursor.read_text("a string"));
    return GgufValue(text);
  }
  if (type == GgufType::kArray) {
    SLUICE_ASSIGN_OR_RETURN(GgufArray array, read_array(cursor, 1));
    return GgufValue(std::move(array));
  }
  const std::size_t start = cursor.offset();
  SLUICE_ASSIGN_OR_RETURN(const auto bytes, cursor.take(gguf_type_bytes(type), "a value"));
  if (type == GgufType::kBool) SLUICE_RETURN_IF_ERROR(check_bools(bytes, start));
  return gguf_scalar(type, bytes.data());
}

Result<DType> read_tensor_type(Cursor& cursor) {
  std::uint32_t code = 0;
  SLUICE_RETURN_IF_ERROR(cursor.read(code, "a tensor type"));
  if (const std::optional<DType> known = gguf_tensor_dtype(code)) return *known;
  return invalid_argument(
      fmt::format("expected one of the types {}, found {}; use a file of another quantisation, "
                  "such as Q4_K_M, or convert it to one of these types",
                  gguf_tensor_type_names(), gguf_tensor_code_name(code)));
}

Result<std::vector<std::int64_t>> read_shape(Cursor& cursor) {
  std::uint32_t dimensions = 0;
  SLUICE_RETURN_IF_ERROR(cursor.read(dimensions, "a number of dimensions"));
  if (dimensions > kGgufMaxDimensions) {
    return invalid_argument(fmt::format("expected at most {} dimensions, found {}", kGgufMaxDimensions, dimensions));
  }
  std::vector<std::int64_t> shape(dimensions);
  for (std::size_t i = dimensions; i-- > 0;) {
    std::uint64_t size = 0;
    SLUICE_RETURN_IF_ERROR(cursor.read(size, "a dimension"));
    if (size > static_cast<std::uint64_t>(INT64_MAX)) {
      return invalid_argument(fmt::format("expected dimensions below 2^63, found {}", size));
    }
    shape[i] = static_cast<std::int64_t>(size);
  }
  return shape;
}

}  // namespace

// Reads the parts of a file in their order: header, metadata, tensor table, data.
class GgufFile::Parser {
 public:
  Parser(std::span<const std::byte> bytes, GgufFile& file) : bytes_(bytes), cursor_(bytes), file_(file) {}

  Status parse() {
    SLUICE_RETURN_IF_ERROR(read_header());
    for (std::uint64_t i = 0; i < entries_; ++i) SLUICE_RETURN_IF_ERROR(read_entry());
    SLUICE_RETURN_IF_ERROR(read_alignment());
    // Checked again: the metadata has used a part of the file.
    if (tensors_ > cursor_.left() / kMinTensorBytes) {
      return invalid_argument(
          fmt::format("offset {}: expected at most {} tensors in the {} bytes that follow, found {}; "
                      "the file is truncated or damaged",
                      cursor_.offset(), cursor_.left() / kMinTensorBytes, cursor_.left(), tensors_));
    }
    for (std::uint64_t i = 0; i < tensors_; ++i) SLUICE_RETURN_IF_ERROR(read_tensor());
    SLUICE_RETURN_IF_ERROR(place_tensors());
    std::ranges::sort(file_.tensors_, {}, &TensorView::name);
    const auto twice = std::ranges::adjacent_find(file_.tensors_, {}, &TensorView::name);
    if (twice != file_.tensors_.end()) {
      return invalid_argument(fmt::format("tensor {}: expected names that differ, found it twice", twice->name));
    }
    return check_no_overlaps(file_.tensors_);
  }

 private:
  Status read_header() {
    const auto magic = cursor_.take(kMagic.size(), "a GGUF header");
    if (!magic.ok() || std::memcmp(magic->data(), kMagic.data(), kMagic.size()) != 0) {
      const std::string_view form = foreign_form({reinterpret_cast<const char*>(bytes_.data()), bytes_.size()});
      return invalid_argument(fmt::format("expected a file that begins with \"GGUF\", found {}; it is no GGUF file",
                                          form.empty() ? "another" : form));
    }
    std::uint32_t version = 0;
    SLUICE_RETURN_IF_ERROR(cursor_.read(version, "the version"));
    if (version != kGgufVersion) {
      const bool swapped = __builtin_bswap32(version) <= kGgufVersion;
      return invalid_argument(fmt::format("expected GGUF version {}, found {}{}; convert the file again", kGgufVersion,
                                          swapped ? __builtin_bswap32(version) : version,
                                          swapped ? " in big-endian byte order" : ""));
    }
    SLUICE_RETURN_IF_ERROR(cursor_.read_count(tensors_, kMinTensorBytes, "tensors"));
    return cursor_.read_count(entries_, kMinEntryBytes, "metadata entries");
  }

  Status read_entry() {
    const std::size_t start = cursor_.offset();
    SLUICE_ASSIGN_OR_RETURN(const std::string_view key, cursor_.read_text("a key"));
    if (!is_printable(key) || key.size() > kMaxKeyBytes) {
      return invalid_argument(
          fmt::format("offset {}: expected a key of 1 to {} bytes without control characters, "
                      "found {}",
                      start, kMaxKeyBytes, in_quotes(key)));
    }
    SLUICE_ASSIGN_OR_RETURN(const GgufType type, read_type(cursor_));
    Result<GgufValue> value = read_value(cursor_, type);
    if (!value.ok()) return value.status().with_context(fmt::format("key '{}'", key));
    if (file_.metadata_.emplace(key, std::move(*value)).second) return {};
    return invalid_argument(fmt::format("offset {}: key '{}': expected keys that differ, found it twice", start, key));
  }

  Status read_alignment() {
    const auto found = file_.metadata_.find("general.alignment");
    if (found == file_.metadata_.end()) return {};
    const auto* alignment = std::get_if<std::uint64_t>(&found->second);
    if (alignment != nullptr && *alignment >= kMinAlignment && *alignment <= UINT32_MAX &&
        std::has_single_bit(*alignment)) {
      alignment_ = *alignment;
      return {};
    }
    return invalid_argument(fmt::format("key 'general.alignment': expected a power of two from {}, found {}",
                                        kMinAlignment, describe_gguf(&found->second)));
  }

  Status read_tensor() {
    const std::size_t start = cursor_.offset();
    SLUICE_ASSIGN_OR_RETURN(const std::string_view name, cursor_.read_text("a tensor name"));
    if (!is_printable(name) || name.size() > kGgufMaxNameBytes) {
      return invalid_argument(
          fmt::format("offset {}: expected a tensor name of 1 to {} bytes without control "
                      "characters, found {}",
                      start, kGgufMaxNameBytes, in_quotes(name)));
    }
    return read_tensor_entry(name).with_context(fmt::format("tensor {}", name));
  }

  Status read_tensor_entry(std::string_view name) {
    TensorView tensor;
    tensor.name = name;
    tensor.file = file_.file_name_;
    SLUICE_ASSIGN_OR_RETURN(tensor.shape, read_shape(cursor_));
    SLUICE_ASSIGN_OR_RETURN(tensor.dtype, read_tensor_type(cursor_));
    SLUICE_ASSIGN_OR_RETURN(tensor.bytes, tensor_bytes(tensor.dtype, tensor.shape));
    std::uint64_t offset = 0;
    SLUICE_RETURN_IF_ERROR(cursor_.read(offset, "an offset"));
    if (offset % alignment_ != 0) {
      return invalid_argument(fmt::format("expected an offset that is a multiple of {}, found {}", alignment_, offset));
    }
    offsets_.push_back(offset);
    file_.tensors_.push_back(std::move(tensor));
    return {};
  }

  // The data begin at the first aligned offset after the table; tensors' offsets count from there.
  Status place_tensors() {
    const std::uint64_t end = (cursor_.offset() + alignment_ - 1) / alignment_ * alignment_;
    const auto data =
        end < bytes_.size() ? bytes_.subspan(static_cast<std::size_t>(end)) : std::span<const std::byte>();
    for (std::size_t i = 0; i < offsets_.size(); ++i) {
      TensorView& tensor = file_.tensors_[i];
      if (tensor.bytes == 0) {
        tensor.data = &kNoTensorData;
        continue;
      }
      if (offsets_[i] > data.size() || tensor.bytes > data.size() - offsets_[i]) {
        return invalid_argument(fmt::format(
            "tensor {}: expected {} bytes for {} {} at offset {} of the data, found {} "
            "bytes of data; the file is truncated or damaged",
            tensor.name, tensor.bytes, dtype_name(tensor.dtype), shape_text(tensor.shape), offsets_[i], data.size()));
      }
      tensor.data = data.data() + offsets_[i];
    }
    return {};
  }

  std::span<const std::byte> bytes_;
  Cursor cursor_;
  GgufFile& file_;
  std::uint64_t tensors_ = 0, entries_ = 0;
  std::uint64_t alignment_ = kGgufAlignment;
  std::vector<std::uint64_t> offsets_;  // the offsets of file_.tensors_, before they are sorted
};

Result<std::unique_ptr<GgufFile>> GgufFile::parse(std::span<const std::byte> bytes, const std::string& name) {
  SLUICE_CHECK(reinterpret_cast<std::uintptr_t>(bytes.data()) % kMinAlignment == 0, "a GGUF file in memory is aligned");
  std::unique_ptr<GgufFile> file(new GgufFile());
  file->path_ = name;
  file->file_name_ = name.substr(name.rfind('/') + 1);
  SLUICE_RETURN_IF_ERROR(Parser(bytes, *file).parse().with_context(name));
  return file;
}

Result<std::unique_ptr<GgufFile>> GgufFile::open(const std::string& path) {
  SLUICE_ASSIGN_OR_RETURN(MappedFile mapping, MappedFile::open(path));
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<GgufFile> file, parse(mapping.bytes(), path));
  file->mapping_ = std::move(mapping);
  return file;
}

}  // namespace sluice
