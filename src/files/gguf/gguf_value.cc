// Used by gguf_file.h and gguf_writer.h.
#include "files/gguf/gguf_value.h"

#include <fmt/format.h>

#include <cstring>

#include "base/check.h"
#include "files/json.h"

namespace sluice {
namespace {

struct Entry {
  std::string_view name;
  std::size_t bytes;
};
constexpr Entry kEntries[] = {
    {"uint8", 1}, {"int8", 1},   {"uint16", 2}, {"int16", 2},  {"uint32", 4}, {"int32", 4},   {"float32", 4},
    {"bool", 1},  {"string", 0}, {"array", 0},  {"uint64", 8}, {"int64", 8},  {"float64", 8},
};
static_assert(std::size(kEntries) == kGgufTypeCount);

const Entry& entry(GgufType type) {
  const auto index = static_cast<std::uint32_t>(type);
  SLUICE_CHECK(index < kGgufTypeCount, "a GGUF type outside the enum");
  return kEntries[index];
}

template <class Stored, class Kept>
GgufValue load(const std::byte* bytes) {
  Stored value;
  std::memcpy(&value, bytes, sizeof(value));  // little-endian, as every machine this builds for
  return static_cast<Kept>(value);
}

// Names the value's kind and shows it.
struct Describe {
  std::string operator()(std::uint64_t value) const { return fmt::format("{}", value); }
  std::string operator()(std::int64_t value) const { return fmt::format("{}", value); }
  std::string operator()(float value) const { return fmt::format("{}", value); }
  std::string operator()(double value) const { return fmt::format("{}", value); }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(std::string_view value) const {
    const boost::json::value text(value);
    return describe_json(&text);
  }
  std::string operator()(const GgufArray& value) const {
    return fmt::format("an array of {} {} values", value.size, gguf_type_name(value.type));
  }
};

}  // namespace

std::string_view gguf_type_name(GgufType type) {
  return entry(type).name;
}

std::size_t gguf_type_bytes(GgufType type) {
  return entry(type).bytes;
}

GgufValue gguf_scalar(GgufType type, const std::byte* bytes) {
  switch (type) {
    case GgufType::kUint8:
      return load<std::uint8_t, std::uint64_t>(bytes);
    case GgufType::kInt8:
      return load<std::int8_t, std::int64_t>(bytes);
    case GgufType::kUint16:
      return load<std::uint16_t, std::uint64_t>(bytes);
    case GgufType::kInt16:
      return load<std::int16_t, std::int64_t>(bytes);
    case GgufType::kUint32:
      return load<std::uint32_t, std::uint64_t>(bytes);
    case GgufType::kInt32:
      return load<std::int32_t, std::int64_t>(bytes);
    case GgufType::kFloat32:
      return load<float, float>(bytes);
    case GgufType::kBool:
      return *bytes != std::byte{0};
    case GgufType::kUint64:
      return load<std::uint64_t, std::uint64_t>(bytes);
    case GgufType::kInt64:
      return load<std::int64_t, std::int64_t>(bytes);
    case GgufType::kFloat64:
      return load<double, double>(bytes);
    case GgufType::kString:
    case GgufType::kArray:
      break;
  }
  SLUICE_CHECK(false, "strings and arrays are no scalars");
}

GgufValue gguf_element(const GgufArray& array, std::size_t index) {
  SLUICE_CHECK(index < array.size && gguf_type_bytes(array.type) > 0, "an element of an array of numbers");
  return gguf_scalar(array.type, array.numbers.data() + index * gguf_type_bytes(array.type));
}

std::string describe_gguf(const GgufValue* value) {
  return value == nullptr ? "nothing" : std::visit(Describe{}, *value);
}

}  // namespace sluice
