#include "formats/gguf_blocks.h"

#include <bit>
#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "base/number_formats.h"

namespace sluice {
namespace {

using Byte = unsigned char;

float load_f16(const Byte* bytes) {
  f16 value;
  std::memcpy(&value, bytes, sizeof(value));
  return to_float(value);
}

float signed_float(Byte code) {
  return static_cast<float>(static_cast<std::int8_t>(code));
}

// 16 bytes of nibbles: the low ones are elements 0 to 15, the high ones 16 to 31.
template <class Decode>
void decode_halves(const Byte* codes, float* out, const Decode& decode) {
  for (int i = 0; i < 16; ++i) {
    out[i] = decode(codes[i] & 0xF);
    out[i + 16] = decode(codes[i] >> 4);
  }
}

// d, 32 signed bytes.
void decode_q8_0(const Byte* block, float* out) {
  const float d = load_f16(block);
  for (int i = 0; i < 32; ++i) out[i] = signed_float(block[2 + i]) * d;
}

// d, nibbles less 8.
void decode_q4_0(const Byte* block, float* out) {
  const float d = load_f16(block);
  decode_halves(block + 2, out, [d](int code) { return d * static_cast<float>(code - 8); });
}

// d, m, nibbles.
void decode_q4_1(const Byte* block, float* out) {
  const float d = load_f16(block), m = load_f16(block + 2);
  decode_halves(block + 4, out, [d, m](int code) { return d * static_cast<float>(code) + m; });
}

// An e8m0 scale, here that of the doubled values, nibbles of e2m1. Unlike in the OCP format, codes 0 and 255 of the
// scale are powers of two like the others, and there is no negative zero.
void decode_mxfp4(const Byte* block, float* out) {
  static constexpr float kDoubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  const std::uint32_t e = block[0];
  const auto d = std::bit_cast<float>(e < 2 ? 0x00200000U << e : (e - 1) << 23);  // 2^(e - 128), also below 2^-126
  decode_halves(block + 1, out, [d](int code) { return d * kDoubled[code]; });
}

// The 6-bit scale and minimum of the eight 32-element parts of a Q4_K or Q5_K block, in 12 bytes: the low bits of parts
// 4 to 7 are in the last four bytes, their high bits above the scales and minima of parts 0 to 3.
struct ScaleMin {
  float scale, min;
};
ScaleMin scale_min(const Byte* packed, int part) {
  const int i = part % 4;
  if (part < 4) return {static_cast<float>(packed[i] & 0x3F), static_cast<float>(packed[4 + i] & 0x3F)};
  return {static_cast<float>((packed[8 + i] & 0xF) | ((packed[i] >> 2) & 0x30)),
          static_cast<float>((packed[8 + i] >> 4) | ((packed[4 + i] >> 2) & 0x30))};
}

// d, dmin, 12 bytes of scales and minima, for Q5_K 32 bytes of fifth bits (bit p of byte i: element i of part p), and
// nibbles, 32 bytes for two parts.
template <bool kFifthBit>
void decode_q4_or_5_k(const Byte* block, float* out) {
  const float d = load_f16(block), dmin = load_f16(block + 2);
  const Byte* fifth = block + 16;
  const Byte* nibbles = kFifthBit ? fifth + 32 : fifth;
  for (int part = 0; part < 8; ++part) {
    const ScaleMin packed = scale_min(block + 4, part);
    const float scale = d * packed.scale, min = dmin * packed.min;
    const Byte* codes = nibbles + part / 2 * 32;
    for (int i = 0; i < 32; ++i) {
      int code = (codes[i] >> (part % 2 * 4)) & 0xF;
      if constexpr (kFifthBit) code |= ((fifth[i] >> part) & 1) << 4;
      out[part * 32 + i] = scale * static_cast<float>(code) - min;
    }
  }
}

// For each half of 128 elements 64 bytes of low nibbles, then for each half 32 bytes of bit pairs, 16 signed scales of
// 16 elements each, d. A half's four parts of 32: its nibble bytes' low, low, high, high; its pairs from low to high.
void decode_q6_k(const Byte* block, float* out) {
  const float d = load_f16(block + 208);
  for (int part = 0; part < 8; ++part) {
    const int half = part / 4, quarter = part % 4;
    const Byte* nibbles = block + half * 64 + quarter % 2 * 32;
    const Byte* pairs = block + 128 + half * 32;
    for (int i = 0; i < 32; ++i) {
      const float scale = d * signed_float(block[192 + part * 2 + i / 16]);
      const int code = ((nibbles[i] >> (quarter / 2 * 4)) & 0xF) | (((pairs[i] >> (quarter * 2)) & 3) << 4);
      out[part * 32 + i] = scale * static_cast<float>(code - 32);
    }
  }
}

using DecodeBlock = void (*)(const Byte* block, float* out);

// Null for what is no block type.
DecodeBlock block_decoder(DType dtype) {
  switch (dtype) {
    case DType::kQ8_0:
      return decode_q8_0;
    case DType::kQ4_0:
      return decode_q4_0;
    case DType::kQ4_1:
      return decode_q4_1;
    case DType::kQ4_K:
      return decode_q4_or_5_k<false>;
    case DType::kQ5_K:
      return decode_q4_or_5_k<true>;
    case DType::kQ6_K:
      return decode_q6_k;
    case DType::kMXFP4:
      return decode_mxfp4;
    default:
      return nullptr;
  }
}

template <class Stored>
void widen(const Byte* bytes, std::size_t elements, float* out) {
  for (std::size_t i = 0; i < elements; ++i) {
    Stored value;
    std::memcpy(&value, bytes + i * sizeof(Stored), sizeof(Stored));
    out[i] = to_float(value);
  }
}

}  // namespace

bool is_dequantizable(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16 || block_decoder(dtype) != nullptr;
}

void dequantize(DType dtype, const std::byte* data, std::size_t elements, float* out) {
  const auto* bytes = reinterpret_cast<const Byte*>(data);
  if (elements == 0) return;
  if (dtype == DType::kF32) {
    std::memcpy(out, bytes, elements * sizeof(float));
  } else if (dtype == DType::kF16) {
    widen<f16>(bytes, elements, out);
  } else if (dtype == DType::kBF16) {
    widen<bf16>(bytes, elements, out);
  } else {
    const DecodeBlock decode = block_decoder(dtype);
    const DTypeBlock block = dtype_block(dtype);
    const auto per_block = static_cast<std::size_t>(block.elements);
    SLUICE_CHECK(decode != nullptr && elements % per_block == 0, "whole blocks of a type that stands for numbers");
    for (std::size_t i = 0; i < elements / per_block; ++i) {
      decode(bytes + i * static_cast<std::size_t>(block.bytes), out + i * per_block);
    }
  }
}

}  // namespace sluice
