// The codecs of cached rows (kernels/plane.h), value by value and unit by unit: what kernels/plane.cc says in loops.
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
  switch (codec) {
    case RowCodec::kV4Fp8:
      return {units(dims - rope_dims, 64), 64, rope_dims > 0 ? 1 : 0, rope_dims};
    case RowCodec::kMlaFp8:
      return {units(dims - rope_dims, 128), 128, rope_dims > 0 ? 1 : 0, rope_dims};
    case RowCodec::kIndexFp8:
      return {1, dims, 0, 0};
    case RowCodec::kIndexFp4:
      return {units(dims, 32), 32, 0, 0};
    default:
      return {0, 0, units(dims, 128), 128};
  }
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
SLUICE_DEVICE float unit_scale(const Team<16>& team, RowCodec codec, int n, const Value& value) {
  PerThread<float, 16> largest;
  const bool fp4 = codec == RowCodec::kIndexFp4;
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
SLUICE_DEVICE float decode_value(const RowFormat& format, const RowRef& row, int d) {
  const int plain = format.dims - format.rope_dims;
  const auto code = [&] { return static_cast<std::uint8_t>(row.data[d]); };
  switch (format.codec) {
    case RowCodec::kF32:
      return load_f32(row.data + 4 * d);
    case RowCodec::kBf16:
      return to_float(bf16{load_u16(row.data + 2 * d)});
    case RowCodec::kV4Fp8:
      if (d < plain) return e4m3_to_float(code()) * e8m0_to_float(static_cast<std::uint8_t>(row.scales[d / 64]));
      break;
    case RowCodec::kMlaFp8:
      if (d < plain) return e4m3_to_float(code()) * load_f32(row.scales + d / 128 * 4);
      break;
    case RowCodec::kIndexFp8:
      return e4m3_to_float(code()) * load_f32(row.scales);
    case RowCodec::kIndexFp4: {
      const auto pair = static_cast<std::uint8_t>(row.data[d / 2]);
      return e2m1_to_float(static_cast<std::uint8_t>(pair >> (d % 2 * 4) & 15)) *
             e8m0_to_float(static_cast<std::uint8_t>(row.scales[d / 32]));
    }
  }
  return to_float(bf16{load_u16(row.data + plain + 2 * (d - plain))});
}

}  // namespace sluice::SLUICE_CUDA_OPS
