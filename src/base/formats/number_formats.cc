// Used by base, files, kernels and model.
#include "base/formats/number_formats.h"

namespace sluice {

f16 to_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = (bits >> 16) & 0x8000U;
  std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return {0x7E00};
  if (magnitude >= 0x477FF000U) return {static_cast<std::uint16_t>(sign | 0x7C00U)};  // 65520 and above become infinite
  if (magnitude >= 0x38800000U) {
    magnitude += 0xFFFU + ((magnitude >> 13) & 1U);
    return {static_cast<std::uint16_t>(sign | ((magnitude - (112U << 23)) >> 13))};
  }
  // Below 2^-14: a neighbour of 0.5 has multiples of 2^-24 in its low bits.
  const float aligned = std::bit_cast<float>(magnitude) + 0.5F;
  return {
      static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(aligned) - std::bit_cast<std::uint32_t>(0.5F)))};
}

}  // namespace sluice
