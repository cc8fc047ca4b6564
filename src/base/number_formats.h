// The number formats of DeepSeek checkpoints and caches, converted exactly, one value at a time.
//
//   bf16   1-8-7; from f32 by round-to-nearest-even
//   f16    1-5-10, IEEE; from f32 by round-to-nearest-even
//   e4m3   1-4-3, bias 7, no infinity, NaN = 0x7F / 0xFF, largest finite 448 (OCP "fn")
//   e2m1   1-2-1 (FP4): magnitudes 0, 0.5, 1, 1.5, 2, 3, 4, 6 by code; sign is bit 3
//   e8m0   an exponent byte b = 2^(b - 127); 0xFF is NaN
//
// Source: the specification of DeepSeek-V4's checkpoints (sections 0.3 and 11); OCP MX v1.0 for e2m1 and e8m0.
// Thread safety: pure functions.
#pragma once

#include <bit>
#include <cstdint>

namespace sluice {

struct bf16 {
  std::uint16_t bits = 0;
};
struct f16 {
  std::uint16_t bits = 0;
};

inline float to_float(bf16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

inline bf16 to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return {static_cast<std::uint16_t>((bits >> 16) | 0x40U)};  // quiet NaN
  return {static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16)};
}

// f32 rounded to bf16 and back.
inline float round_to_bf16(float value) {
  return to_float(to_bf16(value));
}

float to_float(f16 value);
f16 to_f16(float value);

float e4m3_to_float(std::uint8_t code);
// Clamps to +-448, then rounds to nearest even. NaN gives 0x7F.
std::uint8_t float_to_e4m3(float value);

float e2m1_to_float(std::uint8_t code);  // the low 4 bits
// Clamps to +-6, then rounds to the nearest code, ties to the even code. NaN gives 7 (6.0).
std::uint8_t float_to_e2m1(float value);

// 2^(b - 127), 0 giving the subnormal 2^-127; 0xFF gives NaN.
inline float e8m0_to_float(std::uint8_t code) {
  if (code == 0xFF) return std::bit_cast<float>(0x7FC00000U);
  if (code == 0) return std::bit_cast<float>(0x00400000U);
  return std::bit_cast<float>(static_cast<std::uint32_t>(code) << 23);
}

// The smallest power of two that is >= value, for normal positive values; computed on the bits, without a logarithm.
inline float pow2_ceil(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return std::bit_cast<float>(((bits >> 23) + ((bits & 0x7FFFFFU) != 0 ? 1U : 0U)) << 23);
}

// The e8m0 code of a power of two.
inline std::uint8_t pow2_to_e8m0(float power_of_two) {
  return static_cast<std::uint8_t>(std::bit_cast<std::uint32_t>(power_of_two) >> 23);
}

}  // namespace sluice
