#include "base/number_formats.h"

#include <array>
#include <cmath>

namespace sluice {

float to_float(f16 value) {
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

f16 to_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = (bits >> 16) & 0x8000U;
  std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return {static_cast<std::uint16_t>(sign | 0x7E00U)};
  if (magnitude >= 0x477FF000U) return {static_cast<std::uint16_t>(sign | 0x7C00U)};  // from 65520: infinite
  if (magnitude >= 0x38800000U) {
    magnitude += 0xFFFU + ((magnitude >> 13) & 1U);
    return {static_cast<std::uint16_t>(sign | ((magnitude - (112U << 23)) >> 13))};
  }
  // Below 2^-14: a neighbour of 0.5 has multiples of 2^-24 in its low bits.
  const float aligned = std::bit_cast<float>(magnitude) + 0.5F;
  return {
      static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(aligned) - std::bit_cast<std::uint32_t>(0.5F)))};
}

float e4m3_to_float(std::uint8_t code) {
  const int exponent = (code >> 3) & 0xF;
  const int mantissa = code & 7;
  float magnitude;
  if (exponent == 15 && mantissa == 7) {
    magnitude = std::bit_cast<float>(0x7FC00000U);
  } else if (exponent == 0) {
    magnitude = static_cast<float>(mantissa) * 0x1p-9F;
  } else {
    magnitude = std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  }
  return (code & 0x80U) != 0 ? -magnitude : magnitude;
}

std::uint8_t float_to_e4m3(float value) {
  if (std::isnan(value)) return 0x7F;
  const std::uint8_t sign = std::signbit(value) ? 0x80 : 0;
  const float magnitude = std::fmin(std::fabs(value), 448.0F);
  const auto bits = std::bit_cast<std::uint32_t>(magnitude);
  if (magnitude < 0x1p-6F) {  // subnormal: multiples of 2^-9; adding 2^14 rounds to that grid, ties to even
    const float rounded = (magnitude + 0x1p14F) - 0x1p14F;
    return static_cast<std::uint8_t>(sign | static_cast<std::uint8_t>(rounded * 0x1p9F));
  }
  // Keep 3 mantissa bits, round to nearest even on the f32 bits, rebias 127 -> 7.
  const std::uint32_t rounded = bits + 0x7FFFFU + ((bits >> 20) & 1U);
  return static_cast<std::uint8_t>(sign | ((rounded >> 20) - (120U << 3)));
}

float e2m1_to_float(std::uint8_t code) {
  static constexpr std::array<float, 8> kMagnitudes{0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};
  const float magnitude = kMagnitudes[code & 7U];
  return (code & 8U) != 0 ? -magnitude : magnitude;
}

std::uint8_t float_to_e2m1(float value) {
  const std::uint8_t sign = std::signbit(value) ? 8 : 0;
  const float magnitude = std::fabs(value);
  // The tie between codes c and c + 1 belongs to the even code: up (>=) for odd c + 1 excluded, and so on.
  std::uint8_t code = 0;
  if (magnitude > 0.25F) code = 1;
  if (magnitude >= 0.75F) code = 2;
  if (magnitude > 1.25F) code = 3;
  if (magnitude >= 1.75F) code = 4;
  if (magnitude > 2.5F) code = 5;
  if (magnitude >= 3.5F) code = 6;
  if (magnitude > 5.0F || std::isnan(value)) code = 7;
  return static_cast<std::uint8_t>(sign | code);
}

}  // namespace sluice
