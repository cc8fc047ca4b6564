// The number formats of DeepSeek checkpoints and caches, converted exactly, one value at a time.
//
//   bf16   1-8-7; from f32 by round-to-nearest-even
//   f16    1-5-10, IEEE; from f32 by round-to-nearest-even
//   e4m3   1-4-3, bias 7, no infinity, NaN = 0x7F / 0xFF, largest finite 448 (OCP "fn")
//   e2m1   1-2-1 (FP4): magnitudes 0, 0.5, 1, 1.5, 2, 3, 4, 6 by code; sign is bit 3
//   e8m0   an exponent byte b = 2^(b - 127); 0xFF is NaN
//
// From f32, every NaN gives the same code, whatever its sign and payload (in which processors differ): bf16 0x7FC0, f16
// 0x7E00, e4m3 0x7F; e2m1, which has no NaN, 7 (6.0).
//
// Source: OCP MX v1.0 for e2m1 and e8m0; what checkpoints use of them is in docs/models/deepseek_v4.md §11.
// Thread safety: pure functions.
// Used by base, files, kernels and model.
#pragma once

#include <bit>
#include <cstdint>

#include "base/host_device.h"

namespace sluice {

struct bf16 {
  std::uint16_t bits = 0;
};
struct f16 {
  std::uint16_t bits = 0;
};

SLUICE_HD inline float to_float(bf16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

inline constexpr std::uint16_t kNanBf16 = 0x7FC0;

SLUICE_HD inline bf16 to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return {kNanBf16};
  return {static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16)};
}

// f32 rounded to bf16 and back.
SLUICE_HD inline float round_to_bf16(float value) {
  return to_float(to_bf16(value));
}

SLUICE_HD inline float to_float(f16 value) {
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000U) << 16;
  const std::uint32_t exponent = (value.bits >> 10) & 0x1FU;
  const std::uint32_t mantissa = value.bits & 0x3FFU;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return sign != 0 ? -magnitude : magnitude;
  }
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000U | (mantissa << 13));
  return std::bit_cast<float>(sign | ((exponent + 112U) << 23) | (mantissa << 13));
}
f16 to_f16(float value);

SLUICE_HD inline float e4m3_to_float(std::uint8_t code) {
  const std::uint32_t sign = (code & 0x80U) << 24, exponent = (code >> 3) & 0xFU, mantissa = code & 7U;
  std::uint32_t magnitude = (exponent + 120U) << 23 | mantissa << 20;
  if (exponent == 0) magnitude = std::bit_cast<std::uint32_t>(static_cast<float>(mantissa) * 0x1p-9F);
  if (exponent == 15 && mantissa == 7) magnitude = 0x7FC00000U;
  return std::bit_cast<float>(sign | magnitude);
}

// Clamps to +-448, then rounds to nearest even.
SLUICE_HD inline std::uint8_t float_to_e4m3(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 24) & 0x80U;
  std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return 0x7F;
  if (magnitude > 0x43E00000U) magnitude = 0x43E00000U;  // 448
  if (magnitude <
      0x3C800000U) {  // below 2^-6 subnormal: multiples of 2^-9; adding 2^14 rounds to that grid, ties to even
    const float rounded = (std::bit_cast<float>(magnitude) + 0x1p14F) - 0x1p14F;
    return static_cast<std::uint8_t>(sign | static_cast<std::uint32_t>(rounded * 0x1p9F));
  }
  // Keep 3 mantissa bits, round to nearest even on the f32 bits, rebias 127 -> 7.
  const std::uint32_t rounded = magnitude + 0x7FFFFU + ((magnitude >> 20) & 1U);
  return static_cast<std::uint8_t>(sign | ((rounded >> 20) - (120U << 3)));
}

// Twice the value of the low 4 bits: an integer.
SLUICE_HD inline int e2m1_doubled(std::uint8_t code) {
  const int low = code & 7;
  const int magnitude = low < 4 ? low : (2 + (low & 1)) << ((low >> 1) - 1);
  return (code & 8U) != 0 ? -magnitude : magnitude;
}
SLUICE_HD inline float e2m1_to_float(std::uint8_t code) {  // the low 4 bits
  const float magnitude = static_cast<float>(e2m1_doubled(code & 7U)) * 0.5F;
  return (code & 8U) != 0 ? -magnitude : magnitude;
}
// Clamps to +-6, then rounds to the nearest code, ties to the even code.
SLUICE_HD inline std::uint8_t float_to_e2m1(float value) {
  const std::uint32_t sign = std::bit_cast<std::uint32_t>(value) >> 28 & 8U;
  const float magnitude = std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFFU);
  if (value != value) return 7;
  // The tie between codes c and c + 1 belongs to the even code: up (>=) for odd c + 1 excluded, and so on.
  std::uint8_t code = 0;
  if (magnitude > 0.25F) code = 1;
  if (magnitude >= 0.75F) code = 2;
  if (magnitude > 1.25F) code = 3;
  if (magnitude >= 1.75F) code = 4;
  if (magnitude > 2.5F) code = 5;
  if (magnitude >= 3.5F) code = 6;
  if (magnitude > 5.0F) code = 7;
  return static_cast<std::uint8_t>(sign | code);
}

// 2^(b - 127), 0 giving the subnormal 2^-127; 0xFF gives NaN.
SLUICE_HD inline float e8m0_to_float(std::uint8_t code) {
  if (code == 0xFF) return std::bit_cast<float>(0x7FC00000U);
  if (code == 0) return std::bit_cast<float>(0x00400000U);
  return std::bit_cast<float>(static_cast<std::uint32_t>(code) << 23);
}

// The smallest power of two that is >= value, for normal positive values; computed on the bits, without a logarithm.
SLUICE_HD inline float pow2_ceil(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return std::bit_cast<float>(((bits >> 23) + ((bits & 0x7FFFFFU) != 0 ? 1U : 0U)) << 23);
}

// The e8m0 code of a power of two.
SLUICE_HD inline std::uint8_t pow2_to_e8m0(float power_of_two) {
  return static_cast<std::uint8_t>(std::bit_cast<std::uint32_t>(power_of_two) >> 23);
}

}  // namespace sluice
