// The block types of GGUF files (base/formats/block_codes.h), a struct each: its dtype, its form, and
//   read(block, part, out)   a part of the block at `block`; out.min is 0 before
// and BlockTypes, the list of all of them, from which lookups by type and the kernels over codes follow.
// Used by block_codes.cc, kernels/cpu/linear/linear_codes.h and kernels/cuda/shared/embedding.cu.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/formats/block_codes.h"
#include "base/formats/number_formats.h"
#include "base/host_device.h"

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

// The same with a fifth bit for each: bit i of a little-endian word.
SLUICE_HD inline void read_fives(const Byte* word, const Byte* nibbles, int lowest, CodedPart& out) {
  read_halves(nibbles, lowest, out);
  for (int i = 0; i < 32; ++i)
    out.codes[i] = static_cast<std::int8_t>(out.codes[i] + (word[i / 8] >> (i % 8) & 1) * 16);
}

// d, 32 fifth bits, nibbles; less 16.
struct Q5_0 {
  static constexpr DType kType = DType::kQ5_0;
  static constexpr BlockCodes kForm{.inputs = 32, .bits = 8, .lowest = -16, .min = false, .f16 = true};
  SLUICE_HD static void read(const Byte* block, std::size_t, CodedPart& out) {
    out.scale = load_f16(block);
    read_fives(block + 2, block + 6, kForm.lowest, out);
  }
};

// d, m, 32 fifth bits, nibbles. The form is that of Q5_K, whose kernels it shares.
struct Q5_1 {
  static constexpr DType kType = DType::kQ5_1;
  static constexpr BlockCodes kForm{.inputs = 32, .bits = 8, .lowest = 0, .min = true, .f16 = false};
  SLUICE_HD static void read(const Byte* block, std::size_t, CodedPart& out) {
    out.scale = load_f16(block);
    out.min = load_f16(block + 2);
    read_fives(block + 4, block + 8, kForm.lowest, out);
  }
};

// Reads the 16 codes of part `part` from 256 codes of 2 bits. Each half of 128 codes has 32 bytes, whose pairs of bits,
// from the low ones on, are the half's quarters.
SLUICE_HD inline void read_pairs(const Byte* pairs, std::size_t part, CodedPart& out) {
  const Byte* from = pairs + part / 8 * 32 + part % 2 * 16;
  for (int i = 0; i < 16; ++i) out.codes[i] = static_cast<std::int8_t>(from[i] >> (part / 2 % 4 * 2) & 3);
}

// For each part a scale in the low and a minimum in the high half of a byte, pairs of bits, d, dmin. The minimum is
// subtracted.
struct Q2_K {
  static constexpr DType kType = DType::kQ2_K;
  static constexpr BlockCodes kForm{.inputs = 16, .bits = 4, .lowest = 0, .min = true, .f16 = false};
  SLUICE_HD static void read(const Byte* block, std::size_t part, CodedPart& out) {
    out.scale = load_f16(block + 80) * static_cast<float>(block[part] & 0xF);
    out.min = -(load_f16(block + 82) * static_cast<float>(block[part] >> 4));
    read_pairs(block + 16, part, out);
  }
};

// Third bits as the fifth ones of Q5_K, where 0 subtracts 4; pairs of bits; 12 bytes of scales, 6 bits each less 32; d.
// The scales are 8 bytes of low nibbles, the low ones for parts 0 to 7, then 4 bytes of high pairs of bits, the lowest
// pairs for parts 0 to 3.
struct Q3_K {
  static constexpr DType kType = DType::kQ3_K;
  static constexpr BlockCodes kForm{.inputs = 16, .bits = 4, .lowest = -4, .min = false, .f16 = false};
  SLUICE_HD static void read(const Byte* block, std::size_t part, CodedPart& out) {
    const Byte* scales = block + 96;
    const int low = scales[part % 8] >> (part / 8 * 4) & 0xF, high = scales[8 + part % 4] >> (part / 4 * 2) & 3;
    out.scale = load_f16(block + 108) * static_cast<float>((low | high << 4) - 32);
    read_pairs(block + 32, part, out);
    const Byte* third = block + part % 2 * 16;
    for (int i = 0; i < 16; ++i) {
      out.codes[i] = static_cast<std::int8_t>(out.codes[i] + (third[i] >> (part / 2) & 1) * 4 + kForm.lowest);
    }
  }
};

// The 6-bit scales and minima of the eight 32-element parts of a Q4_K or Q5_K block, in 12 bytes. The low bits of parts
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
// nibbles, 32 bytes for two parts. The minimum is subtracted.
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
// 16 elements each, d. A half's four quarters of 32 elements are in its nibble bytes' low, low, high and high halves,
// and in its pairs from low to high.
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

// d, nibbles that number codes. The form is that of IQ4_XS, whose kernels it shares.
struct IQ4_NL {
  static constexpr DType kType = DType::kIQ4_NL;
  static constexpr BlockCodes kForm{
      .inputs = 32, .bits = 4, .lowest = -127, .min = false, .f16 = false, .level = iq4_code};
  SLUICE_HD static void read(const Byte* block, std::size_t, CodedPart& out) {
    out.scale = load_f16(block);
    read_numbers(block + 2, out);
  }
  SLUICE_HD static void read_numbers(const Byte* nibbles, CodedPart& out) {
    for (int i = 0; i < 16; ++i) {
      out.codes[i] = static_cast<std::int8_t>(iq4_code(nibbles[i] & 0xF));
      out.codes[i + 16] = static_cast<std::int8_t>(iq4_code(nibbles[i] >> 4));
    }
  }
};

// d, 8 pairs of high bits of the parts' scales, 8 nibbles of low ones, less 32, and nibbles as in IQ4_NL.
struct IQ4_XS {
  static constexpr DType kType = DType::kIQ4_XS;
  static constexpr BlockCodes kForm = IQ4_NL::kForm;
  SLUICE_HD static void read(const Byte* block, std::size_t part, CodedPart& out) {
    const int low = block[4 + part / 2] >> (part % 2 * 4) & 0xF, high = block[2 + part / 4] >> (part % 4 * 2) & 3;
    out.scale = load_f16(block) * static_cast<float>((low | high << 4) - 32);
    IQ4_NL::read_numbers(block + 8 + part * 16, out);
  }
};

}  // namespace block_types

template <class... Types>
struct BlockTypeList {
  // Calls run.template operator()<Type>() for the type of `dtype`, if it is in the list; returns whether it is.
  template <class Run>
  [[gnu::always_inline]] SLUICE_HD static bool with(DType dtype, const Run& run) {
    return ((dtype == Types::kType && (run.template operator()<Types>(), true)) || ...);
  }
};
using BlockTypes = BlockTypeList<block_types::Q8_0, block_types::Q4_0, block_types::Q4_1, block_types::Q5_0,
                                 block_types::Q5_1, block_types::Q2_K, block_types::Q3_K, block_types::Q4_K,
                                 block_types::Q5_K, block_types::Q6_K, block_types::IQ4_NL, block_types::IQ4_XS>;

// Reads part `part` of the block at `block`, of a type of integer codes.
SLUICE_HD inline void read_part_of_block(DType dtype, const std::byte* block, std::size_t part, CodedPart& out) {
  out.min = 0;
  BlockTypes::with(dtype,
                   [&]<class Type>() { Type::read(reinterpret_cast<const block_types::Byte*>(block), part, out); });
}

}  // namespace sluice
