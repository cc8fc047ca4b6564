#include <algorithm>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "base/formats/block_codes.h"
#include "base/formats/number_formats.h"
#include "base/threads/thread_pool.h"
#include "kernels/cuda/linear_layout.h"

namespace sluice {
namespace {

constexpr int kChunkBytes = 16;

// Returns the packed form of a trait. Numbers of codes become the codes; so do 16 codes of 4 bits, which would fill
// half a piece. Transposed codes become f32 values. FP8 without scales has scales of 1.
WeightTrait packed_trait(const WeightView& view) {
  if (view.format == WeightFormat::kTransposedCodes) return {.coding = Coding::kF32, .group = 128};
  WeightTrait trait = weight_trait(view);
  if (trait.coding == Coding::kInt4 && (trait.level != nullptr || trait.group < 32)) trait.coding = Coding::kInt8;
  if (trait.coding == Coding::kE4m3 && trait.scales == ScaleFormat::kNone) trait.scales = ScaleFormat::kE8m0;
  return trait;
}

// The number of inputs in 16 bytes, by Coding.
constexpr int kChunkInputs[] = {4, 8, 16, 32, 32, 16};
int inputs_of_chunk(Coding coding) {
  return kChunkInputs[static_cast<std::size_t>(coding)];
}
int scale_bytes_of(const CudaLinear& packed) {
  return scale_bytes(packed.scales) * (packed.min ? 2 : 1);
}

// Writes inputs [0, count) of a block as stored, `bytes` of them in all, to the block's place in a row.
void put_block(const CudaLinear& to, const std::byte* values, std::size_t bytes, int block, std::byte* row) {
  for (std::size_t c = 0; c * kChunkBytes < bytes; ++c) {
    std::byte* chunk = row + (c * static_cast<std::size_t>(to.blocks) + static_cast<std::size_t>(block)) * kChunkBytes;
    std::memcpy(chunk, values + c * kChunkBytes, std::min<std::size_t>(kChunkBytes, bytes - c * kChunkBytes));
  }
}

void pack_codes_row(const WeightView& view, const CudaLinear& to, int n, std::byte* row, std::byte* scales) {
  const std::byte* from = view.data + static_cast<std::size_t>(n) * view.row_bytes();
  for (int b = 0; b < to.blocks; ++b) {
    CodedPart part;
    read_part(view.codes, from, static_cast<std::size_t>(b), part);
    std::byte values[32] = {};
    for (int i = 0; i < to.block; ++i) {
      if (to.coding == Coding::kInt4) {
        values[i / 2] |= static_cast<std::byte>((part.codes[i] - to.lowest) << (i % 2 * 4));
      } else {
        values[i] = static_cast<std::byte>(part.codes[i]);
      }
    }
    put_block(to, values, static_cast<std::size_t>(to.coding == Coding::kInt4 ? to.block / 2 : to.block), b, row);
    const auto put_scale = [&](float value) {
      if (to.scales == ScaleFormat::kF16) {
        const f16 half = to_f16(value);
        std::memcpy(scales, &half, sizeof half);
        scales += sizeof half;
      } else {
        std::memcpy(scales, &value, sizeof value);
        scales += sizeof value;
      }
    };
    put_scale(part.scale);
    if (to.min) put_scale(part.min);
  }
}

// Returns eight e2m1 values in the packed order, signs apart from magnitudes (kernels/cuda/linear_layout.h).
std::uint32_t signs_apart(std::uint32_t word) {
  const auto nibble_a_byte = [](std::uint32_t four) {
    four = (four | four << 8) & 0x00FF00FFU;
    return (four | four << 4) & 0x0F0F0F0FU;
  };
  const std::uint32_t signs = word & 0x88888888U;
  return (word & 0x77777777U) | nibble_a_byte(signs & 0xFFFFU) << 4 | nibble_a_byte(signs >> 16);
}

bool has_nan(const std::byte* codes, int count) {
  unsigned any = 0;
  for (int i = 0; i < count; ++i) any |= static_cast<unsigned>((codes[i] & std::byte{0x7F}) == std::byte{0x7F});
  return any != 0;
}

// Writes the scale of block `b` of row `n` to `to`; it is NaN if a weight of the block is.
void pack_scale(const WeightView& view, const CudaLinear& packed, int n, int b, bool nan, std::byte* to) {
  if (packed.scales == ScaleFormat::kE8m0 && (nan || view.scale_format == ScaleFormat::kNone)) {
    *to = nan ? std::byte{0xFF} : std::byte{127};
    return;
  }
  const auto index =
      static_cast<std::size_t>((view.first_row + n) / view.block_out) * static_cast<std::size_t>(view.scale_columns) +
      static_cast<std::size_t>(b);
  const auto bytes = static_cast<std::size_t>(scale_bytes_of(packed));
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(to, nan ? reinterpret_cast<const std::byte*>(&kNan) : view.scales + index * bytes, bytes);
}

void pack_row(const WeightView& view, const CudaLinear& to, int n, std::byte* row, std::byte* scales) {
  const std::byte* from = view.data + static_cast<std::size_t>(n) * view.row_bytes();
  std::byte nibbles[16];
  for (int b = 0; b < to.blocks; ++b) {
    const int first = b * to.block, count = std::min(to.block, view.in - first);
    if (view.format == WeightFormat::kTransposedCodes) {
      for (int i = 0; i < count; ++i) {
        const float value = view.element(n, first + i);
        std::byte* chunk = row + (static_cast<std::size_t>(i / 4 * to.blocks + b)) * kChunkBytes;
        std::memcpy(chunk + i % 4 * 4, &value, sizeof value);
      }
    } else if (to.coding == Coding::kE2m1) {
      const auto bytes = static_cast<std::size_t>((count + 1) / 2);
      std::memcpy(nibbles, from + first / 2, bytes);
      if (count % 2 != 0) nibbles[bytes - 1] &= std::byte{0x0F};  // clears the nibble after the row's last value
      std::memset(nibbles + bytes, 0, sizeof nibbles - bytes);
      for (std::byte* word = nibbles; word < nibbles + sizeof nibbles; word += 4) {
        std::uint32_t values;
        std::memcpy(&values, word, sizeof values);
        values = signs_apart(values);
        std::memcpy(word, &values, sizeof values);
      }
      put_block(to, nibbles, sizeof nibbles, b, row);
    } else {
      const auto width = static_cast<std::size_t>(kChunkBytes / inputs_of_chunk(to.coding));
      put_block(to, from + static_cast<std::size_t>(first) * width, static_cast<std::size_t>(count) * width, b, row);
    }
    if (to.scales == ScaleFormat::kNone) continue;
    const bool nan = to.coding == Coding::kE4m3 && has_nan(from + first, count);
    pack_scale(view, to, n, b, nan, scales + b * scale_bytes_of(to));
  }
}

std::size_t packed_bytes(const WeightView& view) {
  return CudaLinear(view).bytes();
}

void pack(const WeightView& view, int begin, int end, std::byte* packed) {
  const KeepDenormals exact;
  const CudaLinear to(view);
  for (int n = begin; n < end; ++n) {
    std::byte* row = packed + static_cast<std::size_t>(n) * to.row_bytes;
    std::byte* scales = packed + to.scales_at + static_cast<std::size_t>(n) * to.scale_row_bytes;
    std::memset(row, 0, to.row_bytes);
    std::memset(scales, 0, to.scale_row_bytes);
    if (view.format == WeightFormat::kCodes) {
      pack_codes_row(view, to, n, row, scales);
    } else {
      pack_row(view, to, n, row, scales);
    }
  }
}

}  // namespace

CudaLinear::CudaLinear(const WeightView& view) {
  const WeightTrait trait = packed_trait(view);
  coding = trait.coding;
  scales = trait.scales;
  min = trait.min;
  out = view.out;
  in = view.in;
  block = trait.group;
  SLUICE_CHECK(coding != Coding::kE2m1 || block == 32, "MXFP4 has one scale for 32 inputs");
  blocks = (in + block - 1) / block;
  chunks = (block + inputs_of_chunk(coding) - 1) / inputs_of_chunk(coding);
  lowest = trait.lowest;
  row_bytes = static_cast<std::size_t>(blocks) * static_cast<std::size_t>(chunks) * kChunkBytes;
  scales_at = row_bytes * static_cast<std::size_t>(out);
  scale_row_bytes = (static_cast<std::size_t>(blocks) * static_cast<std::size_t>(scale_bytes_of(*this)) + 3) / 4 * 4;
}

const LinearPacking& cuda_linear_packing() {
  static constexpr LinearPacking kPacking{packed_bytes, pack, 1};
  return kPacking;
}

}  // namespace sluice
