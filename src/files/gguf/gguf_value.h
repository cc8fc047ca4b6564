// GgufValue: a metadata value of a GGUF file.
// Thread safety: plain values; text and bytes are views into the file that holds them.
// Used by gguf_file.h and gguf_writer.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace sluice {

// The types of values, as numbered in files.
enum class GgufType : std::uint32_t {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kFloat32,
  kBool,
  kString,
  kArray,
  kUint64,
  kInt64,
  kFloat64,
};
inline constexpr std::uint32_t kGgufTypeCount = 13;

std::string_view gguf_type_name(GgufType type);  // "uint32"
// Bytes of a value; 0 for strings and arrays, which have no fixed size.
std::size_t gguf_type_bytes(GgufType type);

// The elements of one type. The elements of an array of arrays are checked when the file is read, but not kept.
struct GgufArray {
  GgufType type = GgufType::kUint8;
  std::size_t size = 0;
  std::span<const std::byte> numbers;     // for every type but strings and arrays: as in the file, not aligned
  std::vector<std::string_view> strings;  // for type kString
};

// Integers by signedness, whatever their width in the file.
using GgufValue = std::variant<std::uint64_t, std::int64_t, float, double, bool, std::string_view, GgufArray>;

// Element `index` of an array of numbers or booleans.
GgufValue gguf_element(const GgufArray& array, std::size_t index);
// The value of a number or boolean at `bytes`, gguf_type_bytes(type) of them.
GgufValue gguf_scalar(GgufType type, const std::byte* bytes);

// The value for an error message, shortened if long; "nothing" for nullptr.
std::string describe_gguf(const GgufValue* value);

}  // namespace sluice
