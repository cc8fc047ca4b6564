// The codecs of cached rows (kernels/row_codec.h), value by value and unit by unit.
#pragma once

#include <cmath>

#include "base/number_formats.h"
#include "kernels/cuda/launch.h"
#include "kernels/plane.h"

namespace sluice::SLUICE_CUDA_OPS {

// Values of a row are coded in units: those that share a scale, then those without one; a bf16 or f32 row in units of
// 128 without.
struct RowUnits {
  int coded, coded_values, rest, rest_values;  // units of coded_values each, the last one maybe shorter, and the others
  SLUICE_HD int count() const { return coded + rest; }
};
inline RowUnits row_units(RowCodec codec, int dims, int rope_dims) {
  const auto units = [](int values, int of_unit) { return (values + of_unit - 1) / of_unit; };
  const RowCodecInfo& info = row_codec(codec);
  if (!info.quantised()) return {0, 0, units(dims, 128), 128};
  const int in_blocks = info.in_blocks(dims, rope_dims), of_unit = info.block > 0 ? info.block : in_blocks;
  return {units(in_blocks, of_unit), of_unit, in_blocks < dims ? 1 : 0, dims - in_blocks};
}

SLUICE_DEVICE void store_u16(std::byte* p, std::uint16_t value) {
  p[0] = static_cast<std::byte>(value);
  p[1] = static_cast<std::byte>(value >> 8);
}
SLUICE_DEVICE std::uint16_t load_u16(const std::byte* p) {
  return static_cast<std::uint16_t>(static_cast<unsigned>(p[0]) | static_cast<unsigned>(p[1]) << 8);
}
SLUICE_DEVICE float load_f32(const std::byte* p) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(load_u16(p)) | static_cast<std::uint32_t>(load_u16(p + 2))
                                                                            << 16);
}
SLUICE_DEVICE void store_f32(std::byte* p, float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  store_u16(p, static_cast<std::uint16_t>(bits));
  store_u16(p + 2, static_cast<std::uint16_t>(bits >> 16));
}

// The scale of unit values x[0, n), from sixteen threads: a power of two.
template <class Value>
SLUICE_DEVICE float unit_scale(const Team<16>& team, RowValues values, int n, const Value& value) {
  PerThread<float, 16> largest;
  const bool fp4 = values == RowValues::kE2m1;
  team.each([&](int t) {
    float amax = fp4 ? 6.0F * 0x1p-126F : 1e-4F;
    for (int i = t; i < n; i += 16) {
      const float magnitude = std::fabs(value(i));
      amax = magnitude > amax ? magnitude : amax;
    }
    largest[t] = amax;
  });
  max16(team, largest);
  return pow2_ceil(fp4 ? largest[0] / 6.0F : largest[0] * (1.0F / 448.0F));
}

// Value `d` of a coded row.
template <RowCodec kCodec>
SLUICE_DEVICE float decode_value_as(const RowFormat& format, const RowRef& row, int d) {
  constexpr RowCodecInfo kInfo = row_codec(kCodec);
  if constexpr (kInfo.values == RowValues::kF32) {
    return load_f32(row.data + 4 * d);
  } else {
    const int in_blocks = kInfo.in_blocks(format.dims, format.rope_dims);
    if constexpr (kInfo.quantised()) {
      if (d < in_blocks) {
        const int block = kInfo.block > 0 ? d / kInfo.block : 0;
        const auto codes = static_cast<std::uint8_t>(row.data[kInfo.code_bytes(d)]);
        const float value = kInfo.values == RowValues::kE4m3
                                ? e4m3_to_float(codes)
                                : e2m1_to_float(static_cast<std::uint8_t>(codes >> (d % 2 * 4) & 15));
        return value * (kInfo.scales == RowScales::kF32 ? load_f32(row.scales + block * 4)
                                                        : e8m0_to_float(static_cast<std::uint8_t>(row.scales[block])));
      }
    }
    return to_float(bf16{load_u16(row.data + kInfo.code_bytes(in_blocks) + 2 * (d - in_blocks))});
  }
}
SLUICE_DEVICE float decode_value(const RowFormat& format, const RowRef& row, int d) {
  float value = 0.0F;
  with_row_codec(format.codec, [&]<RowCodec kCodec>(std::integral_constant<RowCodec, kCodec>) {
    value = decode_value_as<kCodec>(format, row, d);
  });
  return value;
}

}  // namespace sluice::SLUICE_CUDA_OPS
