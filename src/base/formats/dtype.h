// DType: the encoding of a stored tensor's elements, with the names that safetensors and GGUF files use.
//
// Elements come in blocks of whole bytes: one element for most, two for F4 (the first in the low half), 32 or 256 for
// the block types of GGUF, which keep their scales with them.
// Thread safety: pure functions.
// Used by base, cli, files, kernels and model.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace sluice {

enum class DType : std::uint8_t {
  kBool,
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kU64,
  kI64,
  kF16,
  kBF16,
  kF32,
  kF64,
  kF8E4M3,  // 1-4-3, "fn": no infinity
  kF8E5M2,
  kF8E8M0,  // an exponent byte, 2^(b - 127); always handled as a raw byte, never cast numerically
  kF4,      // e2m1, two to a byte
  // Blocks along a row, as in GGUF files only (docs/formats/gguf.md).
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kIQ4_NL,
  kIQ4_XS,
  kMXFP4,
};

// The types of safetensors files, which have a whole number of bits per element, are the first kDTypeCount.
inline constexpr int kDTypeCount = static_cast<int>(DType::kF4) + 1;
inline constexpr int kBlockDTypeCount = static_cast<int>(DType::kMXFP4) + 1 - kDTypeCount;

// The unit of storage: `elements` elements in `bytes` bytes.
struct DTypeBlock {
  int elements;
  int bytes;
};
DTypeBlock dtype_block(DType dtype);
inline bool is_block_dtype(DType dtype) {
  return static_cast<int>(dtype) >= kDTypeCount;
}
// Bits per element; not for block types.
int dtype_bits(DType dtype);
// "BF16", "F8_E4M3", "Q4_K", ...: the spelling in files, also used in messages.
std::string_view dtype_name(DType dtype);
// The type with this name in safetensors files.
std::optional<DType> dtype_from_name(std::string_view name);
// The alignment in bytes that reading elements directly needs: 1, 2, 4 or 8.
int dtype_alignment(DType dtype);

}  // namespace sluice
