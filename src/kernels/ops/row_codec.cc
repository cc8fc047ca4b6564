// Used by kernels/cpu/avx512vbmi/fp8_cells.h, kernels/cpu/cpu_rows.h and plane.h.
#include "kernels/ops/row_codec.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "base/formats/number_formats.h"

namespace sluice {
namespace {

// Returns the largest magnitude, at least `floor`; a NaN counts as nothing.
float max_magnitude(const float* x, int n, float floor) {
  float amax = floor;
  for (int i = 0; i < n; ++i) amax = std::fabs(x[i]) > amax ? std::fabs(x[i]) : amax;
  return amax;
}
float scale_of(RowValues values, const float* x, int n) {
  if (values == RowValues::kE4m3) return pow2_ceil(max_magnitude(x, n, 1e-4F) * (1.0F / 448.0F));
  return pow2_ceil(max_magnitude(x, n, 6.0F * 0x1p-126F) / 6.0F);
}

void store_scale(RowScales scales, float scale, std::byte* to) {
  if (scales == RowScales::kE8m0) {
    *to = std::byte{pow2_to_e8m0(scale)};
  } else {
    std::memcpy(to, &scale, sizeof scale);
  }
}
float load_scale(RowScales scales, const std::byte* from) {
  if (scales == RowScales::kE8m0) return e8m0_to_float(static_cast<std::uint8_t>(*from));
  float scale;
  std::memcpy(&scale, from, sizeof scale);
  return scale;
}

void encode_bf16(const float* x, int n, std::byte* out) {
  for (int i = 0; i < n; ++i) {
    const std::uint16_t bits = to_bf16(x[i]).bits;
    std::memcpy(out + 2 * i, &bits, sizeof bits);
  }
}
void decode_bf16(const std::byte* in, int n, float* x) {
  for (int i = 0; i < n; ++i) {
    bf16 value;
    std::memcpy(&value.bits, in + 2 * i, sizeof value.bits);
    x[i] = to_float(value);
  }
}

void encode_block(RowValues values, const float* x, int n, float scale, std::byte* out) {
  if (values == RowValues::kE4m3) {
    for (int i = 0; i < n; ++i) out[i] = std::byte{float_to_e4m3(x[i] / scale)};
    return;
  }
  for (int i = 0; i < n; i += 2) {
    const int low = float_to_e2m1(x[i] / scale), high = float_to_e2m1(x[i + 1] / scale);
    out[i / 2] = static_cast<std::byte>(low | (high << 4));
  }
}
void decode_block(RowValues values, const std::byte* in, int n, float scale, float* x) {
  if (values == RowValues::kE4m3) {
    for (int i = 0; i < n; ++i) x[i] = e4m3_to_float(static_cast<std::uint8_t>(in[i])) * scale;
    return;
  }
  for (int i = 0; i < n; i += 2) {
    const auto pair = static_cast<std::uint8_t>(in[i / 2]);
    x[i] = e2m1_to_float(pair & 15U) * scale;
    x[i + 1] = e2m1_to_float(pair >> 4) * scale;
  }
}

// Calls run(first, count, place of the scale) for the blocks of values [0, in_blocks).
template <class Run>
void for_blocks(const RowCodecInfo& info, int in_blocks, const Run& run) {
  const int block = info.block > 0 ? info.block : in_blocks;
  for (int i = 0; i < in_blocks; i += block) {
    run(i, std::min(block, in_blocks - i), i / block * info.bytes_of_scale());
  }
}

}  // namespace

IndexQueries index_queries(RowCodec codec) {
  return row_codec(codec).index_queries;
}

bool takes_rows(RowCodec codec, int dims, int rope_dims) {
  if (dims <= 0 || rope_dims < 0 || rope_dims > dims) return false;
  const RowCodecInfo& info = row_codec(codec);
  const int in_blocks = info.in_blocks(dims, rope_dims);
  const bool whole = info.block == 0 || info.short_block || in_blocks % info.block == 0;
  return whole && (info.values != RowValues::kE2m1 || in_blocks % 2 == 0);
}

RowFormat make_row_format(RowCodec codec, int dims, int rope_dims) {
  SLUICE_CHECK(takes_rows(codec, dims, rope_dims), "rows of a shape that the codec takes");
  const RowCodecInfo& info = row_codec(codec);
  RowFormat format{codec, dims, rope_dims, 0, 0};
  if (!info.quantised()) {
    format.data_bytes = (info.values == RowValues::kF32 ? 4 : 2) * dims;
    return format;
  }
  const int in_blocks = info.in_blocks(dims, rope_dims);
  format.data_bytes = info.code_bytes(in_blocks) + 2 * (dims - in_blocks);
  for_blocks(info, in_blocks, [&](int, int, int at) { format.scale_bytes = at + info.bytes_of_scale(); });
  format.scale_bytes = (format.scale_bytes + info.scale_multiple - 1) / info.scale_multiple * info.scale_multiple;
  return format;
}

void encode_row(const RowFormat& format, const float* x, RowRef row) {
  const RowCodecInfo& info = row_codec(format.codec);
  if (info.values == RowValues::kF32) {
    std::memcpy(row.data, x, static_cast<std::size_t>(format.data_bytes));
    return;
  }
  const int in_blocks = info.in_blocks(format.dims, format.rope_dims);
  if (format.scale_bytes > 0) std::memset(row.scales, 0, static_cast<std::size_t>(format.scale_bytes));
  for_blocks(info, in_blocks, [&](int first, int n, int at) {
    const float scale = scale_of(info.values, x + first, n);
    store_scale(info.scales, scale, row.scales + at);
    encode_block(info.values, x + first, n, scale, row.data + info.code_bytes(first));
  });
  encode_bf16(x + in_blocks, format.dims - in_blocks, row.data + info.code_bytes(in_blocks));
}

void decode_row(const RowFormat& format, RowRef row, float* x) {
  const RowCodecInfo& info = row_codec(format.codec);
  if (info.values == RowValues::kF32) {
    std::memcpy(x, row.data, static_cast<std::size_t>(format.data_bytes));
    return;
  }
  const int in_blocks = info.in_blocks(format.dims, format.rope_dims);
  for_blocks(info, in_blocks, [&](int first, int n, int at) {
    decode_block(info.values, row.data + info.code_bytes(first), n, load_scale(info.scales, row.scales + at),
                 x + first);
  });
  decode_bf16(row.data + info.code_bytes(in_blocks), format.dims - in_blocks, x + in_blocks);
}

void simulate_row(RowCodec codec, int dims, int rope_dims, float* x) {
  const RowCodecInfo& info = row_codec(codec);
  if (info.values == RowValues::kBf16) {
    for (int i = 0; i < dims; ++i) x[i] = round_to_bf16(x[i]);
    return;
  }
  for_blocks(info, info.in_blocks(dims, rope_dims), [&](int first, int n, int) {
    const float scale = scale_of(info.values, x + first, n);
    for (int i = first; i < first + n; ++i) {
      const float scaled = x[i] / scale;
      x[i] = (info.values == RowValues::kE4m3 ? e4m3_to_float(float_to_e4m3(scaled))
                                              : e2m1_to_float(float_to_e2m1(scaled))) *
             scale;
    }
  });
}

}  // namespace sluice
