// The codecs of cached rows (kernels/ops/row_codec.h), value by value and unit by unit.
// Used by kernels/cuda/shared.
#pragma once

#include <cmath>

#include "base/formats/number_formats.h"
#include "kernels/cuda/launch.h"
#include "kernels/ops/plane.h"

namespace sluice::SLUICE_CUDA_OPS {

// Values of a row are coded in units: those that share a scale, then those without one. A bf16 or f32 row is units of
// 128 without a scale.
struct RowUnits {
  int coded, coded_values, rest, rest_values;  // units with a scale, the last maybe shorter; then units without one
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

// Codes some units of a row, with sixteen threads for each; `lane` is a thread's number among these. Functions do the
// work of one thread.
struct UnitCoder {
  RowCodecInfo codec;
  RowUnits units;
  RowFormat format;  // for a plane all fields; else only dims and rope_dims are set

  SLUICE_DEVICE int in_blocks() const { return codec.in_blocks(format.dims, format.rope_dims); }
  SLUICE_DEVICE int first_of(int unit) const { return unit * units.coded_values; }
  SLUICE_DEVICE int values_of(int unit) const {
    const int left = in_blocks() - first_of(unit);
    return left < units.coded_values ? left : units.coded_values;
  }
  // Returns the thread's part of the largest magnitude of a coded unit; for any other unit some value.
  SLUICE_DEVICE float largest(const float* row, int unit, int lane) const {
    float amax = codec.values == RowValues::kE2m1 ? 6.0F * 0x1p-126F : 1e-4F;
    if (unit >= units.coded) return amax;
    const float* x = row + first_of(unit);
    const int n = values_of(unit);
    for (int i = lane; i < n; i += 16) {
      const float magnitude = std::fabs(x[i]);
      amax = magnitude > amax ? magnitude : amax;
    }
    return amax;
  }
  // Returns the scale for the largest of all sixteen: a power of two.
  SLUICE_DEVICE float scale_of(float largest) const {
    return pow2_ceil(codec.values == RowValues::kE2m1 ? largest / 6.0F : largest * (1.0F / 448.0F));
  }

  // Stores to a row of a plane: codes and their scale, or values after the codes, as f32 or bf16.
  SLUICE_DEVICE void store(const RowRef& row, const float* from, int unit, int lane, float scale) const {
    unit < units.coded ? store_codes(row, from, unit, lane, scale) : store_rest(row, from, unit, lane);
  }
  SLUICE_DEVICE void store_codes(const RowRef& row, const float* from, int unit, int lane, float scale) const {
    const int first = first_of(unit), end = first + values_of(unit);
    if (codec.values == RowValues::kE2m1) {
      for (int d = first + 2 * lane; d < end; d += 32) {
        const int low = float_to_e2m1(from[d] / scale), high = float_to_e2m1(from[d + 1] / scale);
        row.data[d / 2] = static_cast<std::byte>(low | (high << 4));
      }
    } else {
      for (int d = first + lane; d < end; d += 16) row.data[d] = static_cast<std::byte>(float_to_e4m3(from[d] / scale));
    }
    if (lane > 0) return;
    if (codec.scales == RowScales::kF32) {
      store_f32(row.scales + 4 * unit, scale);
    } else {
      row.scales[unit] = static_cast<std::byte>(pow2_to_e8m0(scale));
    }
    if (unit > 0) return;
    for (int pad = units.coded * codec.bytes_of_scale(); pad < format.scale_bytes; ++pad)
      row.scales[pad] = std::byte{0};
  }
  SLUICE_DEVICE void store_rest(const RowRef& row, const float* from, int unit, int lane) const {
    const int coded = in_blocks(), begin = coded + (unit - units.coded) * units.rest_values;
    std::byte* rest = row.data + codec.code_bytes(coded);
    for (int d = begin + lane; d < begin + units.rest_values && d < format.dims; d += 16) {
      if (codec.values == RowValues::kF32) {
        store_f32(rest + 4 * d, from[d]);
      } else {
        store_u16(rest + 2 * (d - coded), to_bf16(from[d]).bits);
      }
    }
  }

  // Writes the values as they are once coded, for simulate_rows(): a quantised row has no other units.
  SLUICE_DEVICE void simulate(float* row, int unit, int lane, float scale) const {
    const bool coded = units.coded > 0;
    const int first = unit * (coded ? units.coded_values : units.rest_values);
    const int left = (coded ? in_blocks() : format.dims) - first,
              of_unit = coded ? units.coded_values : units.rest_values;
    const int n = left < of_unit ? left : of_unit;
    float* x = row + first;
    for (int d = lane; d < n; d += 16) {
      const float scaled = x[d] / scale;
      x[d] = codec.values == RowValues::kBf16   ? round_to_bf16(x[d])
             : codec.values == RowValues::kE2m1 ? e2m1_to_float(float_to_e2m1(scaled)) * scale
                                                : e4m3_to_float(float_to_e4m3(scaled)) * scale;
    }
  }
};
inline UnitCoder unit_coder(const RowFormat& format) {
  return {row_codec(format.codec), row_units(format.codec, format.dims, format.rope_dims), format};
}
// The coder for simulate(): dims that are not in blocks stay as they are.
inline UnitCoder simulating_coder(RowCodec codec, int dims, int rope_dims) {
  UnitCoder coder{row_codec(codec), row_units(codec, dims, rope_dims), {codec, dims, rope_dims}};
  if (coder.codec.quantised()) coder.units.rest = 0;
  return coder;
}

// Returns value `d` of a coded row.
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
