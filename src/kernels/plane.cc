#include "kernels/plane.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/number_formats.h"

namespace sluice {
namespace {

constexpr int kV4Block = 64, kMlaBlock = 128, kFp4Block = 32;

void store_u16(std::byte* p, std::uint16_t value) {
  std::memcpy(p, &value, sizeof value);
}
std::uint16_t load_u16(const std::byte* p) {
  std::uint16_t value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

// The largest magnitude, at least `floor`; a NaN counts as nothing.
float max_magnitude(const float* x, int n, float floor) {
  float amax = floor;
  for (int i = 0; i < n; ++i) amax = std::fabs(x[i]) > amax ? std::fabs(x[i]) : amax;
  return amax;
}
float fp8_scale(const float* x, int n) {
  return pow2_ceil(max_magnitude(x, n, 1e-4F) * (1.0F / 448.0F));
}
float fp4_scale(const float* x, int n) {
  return pow2_ceil(max_magnitude(x, n, 6.0F * 0x1p-126F) / 6.0F);
}

void encode_bf16(const float* x, int n, std::byte* out) {
  for (int i = 0; i < n; ++i) store_u16(out + 2 * i, to_bf16(x[i]).bits);
}
void decode_bf16(const std::byte* in, int n, float* x) {
  for (int i = 0; i < n; ++i) x[i] = to_float(bf16{load_u16(in + 2 * i)});
}
void encode_e4m3(const float* x, int n, float scale, std::byte* out) {
  for (int i = 0; i < n; ++i) out[i] = std::byte{float_to_e4m3(x[i] / scale)};
}
void decode_e4m3(const std::byte* in, int n, float scale, float* x) {
  for (int i = 0; i < n; ++i) x[i] = e4m3_to_float(static_cast<std::uint8_t>(in[i])) * scale;
}
void encode_e2m1(const float* x, int n, float scale, std::byte* out) {
  for (int i = 0; i < n; i += 2) {
    const int low = float_to_e2m1(x[i] / scale), high = float_to_e2m1(x[i + 1] / scale);
    out[i / 2] = static_cast<std::byte>(low | (high << 4));
  }
}
void decode_e2m1(const std::byte* in, int n, float scale, float* x) {
  for (int i = 0; i < n; i += 2) {
    const auto pair = static_cast<std::uint8_t>(in[i / 2]);
    x[i] = e2m1_to_float(pair & 15U) * scale;
    x[i + 1] = e2m1_to_float(pair >> 4) * scale;
  }
}

}  // namespace

const char* name(RowCodec codec) {
  switch (codec) {
    case RowCodec::kF32:
      return "f32";
    case RowCodec::kBf16:
      return "bf16";
    case RowCodec::kV4Fp8:
      return "fp8";
    case RowCodec::kMlaFp8:
      return "mla-fp8";
    case RowCodec::kIndexFp8:
      return "index-fp8";
    case RowCodec::kIndexFp4:
      return "index-fp4";
  }
  return "?";
}

RowFormat make_row_format(RowCodec codec, int dims, int rope_dims) {
  SLUICE_CHECK(dims > 0 && rope_dims >= 0 && rope_dims <= dims, "a row has dims, of which rope_dims are rotary");
  RowFormat format{codec, dims, rope_dims, 0, 0};
  const int plain = dims - rope_dims;
  switch (codec) {
    case RowCodec::kF32:
      format.data_bytes = 4 * dims;
      break;
    case RowCodec::kBf16:
      format.data_bytes = 2 * dims;
      break;
    case RowCodec::kV4Fp8:
      SLUICE_CHECK(plain % kV4Block == 0, "FP8 rows have their non-rotary dims in blocks of 64");
      format.data_bytes = plain + 2 * rope_dims;
      format.scale_bytes = (plain / kV4Block + 7) / 8 * 8;
      break;
    case RowCodec::kMlaFp8:
      format.data_bytes = plain + 2 * rope_dims;
      format.scale_bytes = 4 * ((plain + kMlaBlock - 1) / kMlaBlock);
      break;
    case RowCodec::kIndexFp8:
      format.data_bytes = dims;
      format.scale_bytes = 4;
      break;
    case RowCodec::kIndexFp4:
      SLUICE_CHECK(dims % kFp4Block == 0, "FP4 rows have their dims in blocks of 32");
      format.data_bytes = dims / 2;
      format.scale_bytes = dims / kFp4Block;
      break;
  }
  return format;
}

void encode_row(const RowFormat& format, const float* x, RowRef row) {
  const int plain = format.dims - format.rope_dims;
  switch (format.codec) {
    case RowCodec::kF32:
      std::memcpy(row.data, x, static_cast<std::size_t>(format.data_bytes));
      break;
    case RowCodec::kBf16:
      encode_bf16(x, format.dims, row.data);
      break;
    case RowCodec::kV4Fp8:
      std::memset(row.scales, 0, static_cast<std::size_t>(format.scale_bytes));
      for (int i = 0; i < plain; i += kV4Block) {
        const float scale = fp8_scale(x + i, kV4Block);
        row.scales[i / kV4Block] = std::byte{pow2_to_e8m0(scale)};
        encode_e4m3(x + i, kV4Block, scale, row.data + i);
      }
      encode_bf16(x + plain, format.rope_dims, row.data + plain);
      break;
    case RowCodec::kMlaFp8:
      for (int i = 0; i < plain; i += kMlaBlock) {
        const int n = std::min(kMlaBlock, plain - i);
        const float scale = fp8_scale(x + i, n);
        std::memcpy(row.scales + i / kMlaBlock * 4, &scale, sizeof scale);
        encode_e4m3(x + i, n, scale, row.data + i);
      }
      encode_bf16(x + plain, format.rope_dims, row.data + plain);
      break;
    case RowCodec::kIndexFp8: {
      const float scale = fp8_scale(x, format.dims);
      std::memcpy(row.scales, &scale, sizeof scale);
      encode_e4m3(x, format.dims, scale, row.data);
      break;
    }
    case RowCodec::kIndexFp4:
      for (int i = 0; i < format.dims; i += kFp4Block) {
        const float scale = fp4_scale(x + i, kFp4Block);
        row.scales[i / kFp4Block] = std::byte{pow2_to_e8m0(scale)};
        encode_e2m1(x + i, kFp4Block, scale, row.data + i / 2);
      }
      break;
  }
}

void decode_row(const RowFormat& format, RowRef row, float* x) {
  const int plain = format.dims - format.rope_dims;
  switch (format.codec) {
    case RowCodec::kF32:
      std::memcpy(x, row.data, static_cast<std::size_t>(format.data_bytes));
      break;
    case RowCodec::kBf16:
      decode_bf16(row.data, format.dims, x);
      break;
    case RowCodec::kV4Fp8:
      for (int i = 0; i < plain; i += kV4Block) {
        const float scale = e8m0_to_float(static_cast<std::uint8_t>(row.scales[i / kV4Block]));
        decode_e4m3(row.data + i, kV4Block, scale, x + i);
      }
      decode_bf16(row.data + plain, format.rope_dims, x + plain);
      break;
    case RowCodec::kMlaFp8:
      for (int i = 0; i < plain; i += kMlaBlock) {
        float scale;
        std::memcpy(&scale, row.scales + i / kMlaBlock * 4, sizeof scale);
        decode_e4m3(row.data + i, std::min(kMlaBlock, plain - i), scale, x + i);
      }
      decode_bf16(row.data + plain, format.rope_dims, x + plain);
      break;
    case RowCodec::kIndexFp8: {
      float scale;
      std::memcpy(&scale, row.scales, sizeof scale);
      decode_e4m3(row.data, format.dims, scale, x);
      break;
    }
    case RowCodec::kIndexFp4:
      for (int i = 0; i < format.dims; i += kFp4Block) {
        const float scale = e8m0_to_float(static_cast<std::uint8_t>(row.scales[i / kFp4Block]));
        decode_e2m1(row.data + i / 2, kFp4Block, scale, x + i);
      }
      break;
  }
}

void simulate_row(RowCodec codec, int dims, int rope_dims, float* x) {
  const int plain = dims - rope_dims;
  const auto simulate_e4m3 = [](float* block, int n) {
    const float scale = fp8_scale(block, n);
    for (int j = 0; j < n; ++j) block[j] = e4m3_to_float(float_to_e4m3(block[j] / scale)) * scale;
  };
  switch (codec) {
    case RowCodec::kF32:
      break;
    case RowCodec::kBf16:
      for (int i = 0; i < dims; ++i) x[i] = round_to_bf16(x[i]);
      break;
    case RowCodec::kV4Fp8:
      for (int i = 0; i < plain; i += kV4Block) simulate_e4m3(x + i, kV4Block);
      break;
    case RowCodec::kMlaFp8:
      for (int i = 0; i < plain; i += kMlaBlock) simulate_e4m3(x + i, std::min(kMlaBlock, plain - i));
      break;
    case RowCodec::kIndexFp8:
      simulate_e4m3(x, dims);
      break;
    case RowCodec::kIndexFp4:
      for (int i = 0; i < dims; i += kFp4Block) {
        const float scale = fp4_scale(x + i, kFp4Block);
        for (int j = i; j < i + kFp4Block; ++j) x[j] = e2m1_to_float(float_to_e2m1(x[j] / scale)) * scale;
      }
      break;
  }
}

}  // namespace sluice
