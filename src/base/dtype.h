// DType: how the elements of a stored tensor are encoded, with the names that safetensors files use.
//
// Sizes are in bits because F4 packs two elements into a byte (the first in the low half).
// Thread safety: pure functions.
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
};

inline constexpr int kDTypeCount = static_cast<int>(DType::kF4) + 1;

int dtype_bits(DType dtype);
// "BF16", "F8_E4M3", ...: the spelling in safetensors headers, also used in messages.
std::string_view dtype_name(DType dtype);
std::optional<DType> dtype_from_name(std::string_view name);
// The alignment in bytes that reading elements directly needs: 1, 2, 4 or 8.
int dtype_alignment(DType dtype);

}  // namespace sluice
