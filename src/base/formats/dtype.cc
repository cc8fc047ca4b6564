// Used by base, cli, files, kernels and model.
#include "base/formats/dtype.h"

#include <algorithm>

#include "base/check.h"

namespace sluice {
namespace {

struct Entry {
  DType dtype;
  DTypeBlock block;
  std::string_view name;
};

// Every dtype, once, in the order of the enum.
constexpr Entry kEntries[] = {
    {DType::kBool, {1, 1}, "BOOL"},
    {DType::kU8, {1, 1}, "U8"},
    {DType::kI8, {1, 1}, "I8"},
    {DType::kU16, {1, 2}, "U16"},
    {DType::kI16, {1, 2}, "I16"},
    {DType::kU32, {1, 4}, "U32"},
    {DType::kI32, {1, 4}, "I32"},
    {DType::kU64, {1, 8}, "U64"},
    {DType::kI64, {1, 8}, "I64"},
    {DType::kF16, {1, 2}, "F16"},
    {DType::kBF16, {1, 2}, "BF16"},
    {DType::kF32, {1, 4}, "F32"},
    {DType::kF64, {1, 8}, "F64"},
    {DType::kF8E4M3, {1, 1}, "F8_E4M3"},
    {DType::kF8E5M2, {1, 1}, "F8_E5M2"},
    {DType::kF8E8M0, {1, 1}, "F8_E8M0"},
    {DType::kF4, {2, 1}, "F4"},
    {DType::kQ8_0, {32, 2 + 32}, "Q8_0"},
    {DType::kQ4_0, {32, 2 + 16}, "Q4_0"},
    {DType::kQ4_1, {32, 2 + 2 + 16}, "Q4_1"},
    {DType::kQ5_0, {32, 2 + 4 + 16}, "Q5_0"},
    {DType::kQ5_1, {32, 2 + 2 + 4 + 16}, "Q5_1"},
    {DType::kQ2_K, {256, 16 + 64 + 2 + 2}, "Q2_K"},
    {DType::kQ3_K, {256, 32 + 64 + 12 + 2}, "Q3_K"},
    {DType::kQ4_K, {256, 2 + 2 + 12 + 128}, "Q4_K"},
    {DType::kQ5_K, {256, 2 + 2 + 12 + 32 + 128}, "Q5_K"},
    {DType::kQ6_K, {256, 128 + 64 + 16 + 2}, "Q6_K"},
    {DType::kIQ4_NL, {32, 2 + 16}, "IQ4_NL"},
    {DType::kIQ4_XS, {256, 2 + 2 + 4 + 128}, "IQ4_XS"},
    {DType::kMXFP4, {32, 1 + 16}, "MXFP4"},
};
static_assert(std::size(kEntries) == kDTypeCount + kBlockDTypeCount);

const Entry& entry(DType dtype) {
  const auto index = static_cast<std::size_t>(dtype);
  SLUICE_CHECK(index < std::size(kEntries) && kEntries[index].dtype == dtype, "a dtype outside the enum");
  return kEntries[index];
}

}  // namespace

DTypeBlock dtype_block(DType dtype) {
  return entry(dtype).block;
}

int dtype_bits(DType dtype) {
  SLUICE_CHECK(!is_block_dtype(dtype), "an element of a block type has no bits of its own");
  const DTypeBlock block = dtype_block(dtype);
  return block.bytes * 8 / block.elements;
}

std::string_view dtype_name(DType dtype) {
  return entry(dtype).name;
}

std::optional<DType> dtype_from_name(std::string_view name) {
  const auto* end = std::begin(kEntries) + kDTypeCount;
  const auto* found = std::ranges::find(std::begin(kEntries), end, name, &Entry::name);
  if (found == end) return std::nullopt;
  return found->dtype;
}

int dtype_alignment(DType dtype) {
  return is_block_dtype(dtype) ? 1 : dtype_block(dtype).bytes;
}

}  // namespace sluice
