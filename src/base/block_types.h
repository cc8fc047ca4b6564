// The block types of GGUF files (base/block_codes.h), a struct each: its dtype, its form, and
//   read(block, part, out)   a part of the block at `block`; out.min is 0 before
// and BlockTypes, all of them: what is looked up by type and the kernels over codes follow from that list.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/block_codes.h"
#include "base/host_device.h"
#include "base/number_formats.h"

namespace sluice {
namespace block_types {
using Byte = unsigned char;

SLUICE_HD inline float load_f16(const Byte* bytes) {
  f16 value;
  std::memcpy(&value, bytes, sizeof(value));
  return to_float(value);
}

// 16 bytes of nibbles: the low ones are elements 0 to 15, the high ones 16 to 31.
SLUICE_HD inline void read_halves(const Byte* nibbles, int lowest, CodedPart& out) {
  for (int i = 0; i < 16; ++i) {
    out.codes[i] = static_cast<std::int8_t>((nibbles[i] & 0xF) + lowest);
    out.codes[i + 16] = static_cast<std::int8_t>((nibbles[i] >> 4) + lowest);
  }
}

// d, 32 signed bytes.
struct Q8_0 {
  static constexpr DType kType = DType::kQ8_0;
  static constexpr BlockCodes kForm{.inputs = 32, .bits = 8, .lowest = -128, .min = false, .f16 = true};
  SLUICE_HD static void read(const Byte* block, std::size_t, CodedPart& out) {
    out.scale = load_f16(block);
    std::memcpy(out.codes, block + 2, 32);
  }
};

// d, nibbles less 8.
struct Q4_0 {
  static constexpr DType kType = DType::kQ4_0;
  static constexpr BlockCodes kForm{.inputs = 32, .bits = 4, .lowest = -8, .min = false, .f16 = true};
  SLUICE_HD static void read(const Byte* block, std::size_t, CodedPart& out) {
    out.scale = load_f16(block);
    read_halves(block + 2, kForm.lowest, out);
  }
};

// d, m, nibbles.
struct Q4_1 {
  static constexpr DType kType = DType::kQ4_1;
  static constexpr BlockCodes kForm{.inputs = 32, .bits = 4, .lowest = 0, .min = true, .f16 = true};
  SLUICE_HD static void read(const Byte* block, std::size_t, CodedPart& out) {
    out.scale = load_f16(block);
    out.min = load_f16(block + 2);
    read_halves(block + 4, kForm.lowest, out);
  }
};

// The 6-bit scale and minimum of the eight 32-element parts of a Q4_K or Q5_K block, in 12 bytes: the low bits of parts
// 4 to 7 are in the last four bytes, their high bits above the scales and minima of parts 0 to 3.
struct ScaleMin {
  float scale, min;
};
SLUICE_HD inline ScaleMin scale_min(const Byte* packed, std::size_t part) {
  const std::size_t i = part % 4;
  if (part < 4) return {static_cast<float>(packed[i] & 0x3F), static_cast<float>(packed[4 + i] & 0x3F)};
  return {static_cast<float>((packed[8 + i] & 0xF) | ((packed[i] >> 2) & 0x30)),
          static_cast<float>((packed[8 + i] >> 4) | ((packed[4 + i] >> 2) & 0x30))};
}

// d, dmin, 12 bytes of scales and minima, for Q5_K 32 bytes of fifth bits (bit p of byte i: element i of part p), and
// nibbles, 32 bytes for two parts. The minimum is taken off.
template <bool kFifthBit>
SLUICE_HD inline void read_q4_or_5_k(const Byte* block, std::size_t part, CodedPart& out) {
  const ScaleMin packed = scale_min(block + 4, part);
  out.scale = load_f16(block) * packed.scale;
  out.min = -(load_f16(block + 2) * packed.min);
  const Byte* fifth = block + 16;
  const Byte* nibbles = (kFifthBit ? fifth + 32 : fifth) + part / 2 * 32;
  for (int i = 0; i < 32; ++i) {
    int code = (nibbles[i] >> (part % 2 * 4)) & 0xF;
    if constexpr (kFifthBit) code |= ((fifth[i] >> part) & 1) << 4;
    out.codes[i] = static_cast<std::int8_t>(code);
  }
}

struct Q4_K {
  static constexpr DType kType = DType::kQ4_K;
  static constexpr BlockCodes kForm{.inputs = 32, .bits = 4, .lowest = 0, .min = true, .f16 = false};
  SLUICE_HD static void read(const Byte* block, std::size_t part, CodedPart& out) {
    read_q4_or_5_k<false>(block, part, out);
  }
};
struct Q5_K {
  static constexpr DType kType = DType::kQ5_K;
  static constexpr BlockCodes kForm{.inputs = 32, .bits = 8, .lowest = 0, .min = true, .f16 = false};
  SLUICE_HD static void read(const Byte* block, std::size_t part, CodedPart& out) {
    read_q4_or_5_k<true>(block, part, out);
  }
};

// For each half of 128 elements 64 bytes of low nibbles, then for each half 32 bytes of bit pairs, 16 signed scales of
// 16 elements each, d. A half's four quarters of 32: its nibble bytes' low, low, high, high; its pairs from low to
// high.
struct Q6_K {
  static constexpr DType kType = DType::kQ6_K;
  static constexpr BlockCodes kForm{.inputs = 16, .bits = 8, .lowest = -32, .min = false, .f16 = false};
  SLUICE_HD static void read(const Byte* block, std::size_t part, CodedPart& out) {
    const std::size_t half = part / 8, quarter = part / 2 % 4, first = part % 2 * 16;
    const Byte* nibbles = block + half * 64 + quarter % 2 * 32 + first;
    const Byte* pairs = block + 128 + half * 32 + first;
    out.scale = load_f16(block + 208) * static_cast<float>(static_cast<std::int8_t>(block[192 + part]));
    for (int i = 0; i < kForm.inputs; ++i) {
      const int code = ((nibbles[i] >> (quarter / 2 * 4)) & 0xF) | (((pairs[i] >> (quarter * 2)) & 3) << 4);
      out.codes[i] = static_cast<std::int8_t>(code + kForm.lowest);
    }
  }
};

}  // namespace block_types

template <class... Types>
struct BlockTypeList {
  // Calls run.template operator()<Type>() for the type of `dtype`, if it is one; whether it is.
  template <class Run>
  [[gnu::always_inline]] SLUICE_HD static bool with(DType dtype, const Run& run) {
    return ((dtype == Types::kType && (run.template operator()<Types>(), true)) || ...);
  }
};
using BlockTypes = BlockTypeList<block_types::Q8_0, block_types::Q4_0, block_types::Q4_1, block_types::Q4_K,
                                 block_types::Q5_K, block_types::Q6_K>;

// Part `part` of the block at `block`, of a type of integer codes.
SLUICE_HD inline void read_part_of_block(DType dtype, const std::byte* block, std::size_t part, CodedPart& out) {
  out.min = 0;
  BlockTypes::with(dtype,
                   [&]<class Type>() { Type::read(reinterpret_cast<const block_types::Byte*>(block), part, out); });
}

}  // namespace sluice
