#include "base/dtype.h"

#include <algorithm>

#include "base/check.h"

namespace sluice {
namespace {

struct Entry {
  DType dtype;
  int bits;
  std::string_view name;
};

// Every dtype, once, in the order of the enum.
constexpr Entry kEntries[] = {
    {DType::kBool, 8, "BOOL"},      {DType::kU8, 8, "U8"},          {DType::kI8, 8, "I8"},
    {DType::kU16, 16, "U16"},       {DType::kI16, 16, "I16"},       {DType::kU32, 32, "U32"},
    {DType::kI32, 32, "I32"},       {DType::kU64, 64, "U64"},       {DType::kI64, 64, "I64"},
    {DType::kF16, 16, "F16"},       {DType::kBF16, 16, "BF16"},     {DType::kF32, 32, "F32"},
    {DType::kF64, 64, "F64"},       {DType::kF8E4M3, 8, "F8_E4M3"}, {DType::kF8E5M2, 8, "F8_E5M2"},
    {DType::kF8E8M0, 8, "F8_E8M0"}, {DType::kF4, 4, "F4"},
};
static_assert(std::size(kEntries) == kDTypeCount);

const Entry& entry(DType dtype) {
  const auto index = static_cast<std::size_t>(dtype);
  SLUICE_CHECK(index < std::size(kEntries) && kEntries[index].dtype == dtype, "a dtype outside the enum");
  return kEntries[index];
}

}  // namespace

int dtype_bits(DType dtype) {
  return entry(dtype).bits;
}

std::string_view dtype_name(DType dtype) {
  return entry(dtype).name;
}

std::optional<DType> dtype_from_name(std::string_view name) {
  const auto* found = std::ranges::find(kEntries, name, &Entry::name);
  if (found == std::end(kEntries)) return std::nullopt;
  return found->dtype;
}

int dtype_alignment(DType dtype) {
  return std::max(1, dtype_bits(dtype) / 8);
}

}  // namespace sluice
