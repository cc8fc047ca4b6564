// Writes GGUF files (version 3) as a stream: no tensor need be in memory as a whole. docs/formats/gguf.md has the
// bytes. Thread safety: functions without shared state; producers are called on the caller's thread.
// Used by cli/commands/synth_gguf.h and gguf_file.cc.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "files/gguf/gguf_value.h"
#include "files/safetensors_writer.h"
#include "sluice/status.h"

namespace sluice {

inline constexpr std::uint32_t kGgufVersion = 3;
inline constexpr std::uint64_t kGgufAlignment = 32;  // the tensors', unless general.alignment says otherwise

// The pieces of a file, as bytes.
struct GgufEncoding {
  template <class Number>
  static std::string number(Number value) {
    std::string bytes(sizeof(Number), '\0');
    std::memcpy(bytes.data(), &value, sizeof(Number));
    return bytes;
  }
  static std::string text(std::string_view value) { return number<std::uint64_t>(value.size()) + std::string(value); }
  static std::string array(GgufType type, std::uint64_t count, std::string_view elements) {
    return number(static_cast<std::uint32_t>(type)) + number(count) + std::string(elements);
  }
  static std::string texts(const std::vector<std::string>& values);
  static std::string head(std::uint32_t version, std::uint64_t tensors, std::uint64_t entries) {
    return "GGUF" + number(version) + number(tensors) + number(entries);
  }
  // `dims` with the contiguous one first; `offset` into the tensors' bytes.
  static std::string tensor_entry(std::string_view name, const std::vector<std::uint64_t>& dims, std::uint32_t type,
                                  std::uint64_t offset);
};

// Metadata, in the order in which they are given.
class GgufEntries {
 public:
  GgufEntries& entry(std::string_view key, GgufType type, std::string_view value);
  GgufEntries& u32(std::string_view key, std::uint32_t value) {
    return entry(key, GgufType::kUint32, GgufEncoding::number(value));
  }
  GgufEntries& f32(std::string_view key, float value) {
    return entry(key, GgufType::kFloat32, GgufEncoding::number(value));
  }
  GgufEntries& boolean(std::string_view key, bool value) {
    return entry(key, GgufType::kBool, GgufEncoding::number<std::uint8_t>(value ? 1 : 0));
  }
  GgufEntries& str(std::string_view key, std::string_view value) {
    return entry(key, GgufType::kString, GgufEncoding::text(value));
  }
  GgufEntries& texts(std::string_view key, const std::vector<std::string>& values) {
    return entry(key, GgufType::kArray, GgufEncoding::texts(values));
  }
  GgufEntries& i32s(std::string_view key, const std::vector<std::int32_t>& values);

  std::uint64_t count() const { return count_; }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
  std::uint64_t count_ = 0;
};

// The tensors keep their order. A producer's offsets are multiples of 65536 of the type's blocks
// (base/formats/dtype.h).
Status write_gguf(const std::string& path, const GgufEntries& metadata, const std::vector<TensorSource>& tensors,
                  const WriteProgress& progress = {});

}  // namespace sluice
