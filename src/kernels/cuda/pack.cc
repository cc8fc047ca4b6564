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

// What a format becomes; codes of 8 bits, those of IQ4 and 16 of 4 bits, which would fill half a piece, become kCodes8.
constexpr struct {
  WeightFormat format;
  CudaWeightKind kind;
} kKinds[] = {
    {WeightFormat::kF32, CudaWeightKind::kF32},      {WeightFormat::kBf16, CudaWeightKind::kBf16},
    {WeightFormat::kFp8, CudaWeightKind::kFp8},      {WeightFormat::kMxfp4, CudaWeightKind::kMxfp4},
    {WeightFormat::kCodes, CudaWeightKind::kCodes4}, {WeightFormat::kTransposedCodes, CudaWeightKind::kF32},
};

CudaWeightKind kind_of(const WeightView& view) {
  const auto* found = std::ranges::find(kKinds, view.format, &std::remove_extent_t<decltype(kKinds)>::format);
  SLUICE_CHECK(found != std::end(kKinds), "CUDA's kernels take every format");
  if (view.format != WeightFormat::kCodes) return found->kind;
  const BlockCodes form = block_codes(view.codes);
  return form.bits == 8 || form.iq4 || form.inputs < 32 ? CudaWeightKind::kCodes8 : found->kind;
}

// By CudaWeightKind: the inputs in 16 bytes. By CudaScaleKind: the bytes of a scale with its minimum.
constexpr int kChunkInputs[] = {4, 8, 16, 32, 32, 16};
constexpr int kScaleBytes[] = {0, 1, 4, 8, 2, 4};
int inputs_of_chunk(CudaWeightKind kind) {
  return kChunkInputs[static_cast<std::size_t>(kind)];
}
int bytes_of(CudaScaleKind kind) {
  return kScaleBytes[static_cast<std::size_t>(kind)];
}

CudaScaleKind scale_kind_of(const WeightView& view) {
  if (view.format == WeightFormat::kCodes) {
    const BlockCodes form = block_codes(view.codes);
    if (form.f16) return form.min ? CudaScaleKind::kF16Min : CudaScaleKind::kF16;
    return form.min ? CudaScaleKind::kF32Min : CudaScaleKind::kF32;
  }
  if (view.format == WeightFormat::kFp8 && view.scale_format == ScaleFormat::kNone) return CudaScaleKind::kE8m0;
  if (view.transposed() || view.scale_format == ScaleFormat::kNone) return CudaScaleKind::kNone;
  return view.scale_format == ScaleFormat::kE8m0 ? CudaScaleKind::kE8m0 : CudaScaleKind::kF32;
}

// Inputs [0, count) of a block as stored, `bytes` of them in all, to a row's place for it.
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
      if (to.kind == CudaWeightKind::kCodes4) {
        values[i / 2] |= static_cast<std::byte>((part.codes[i] - to.lowest) << (i % 2 * 4));
      } else {
        values[i] = static_cast<std::byte>(part.codes[i]);
      }
    }
    put_block(to, values, static_cast<std::size_t>(to.kind == CudaWeightKind::kCodes4 ? to.block / 2 : to.block), b,
              row);
    const auto put_scale = [&](float value) {
      if (to.scale_kind == CudaScaleKind::kF16 || to.scale_kind == CudaScaleKind::kF16Min) {
        const f16 half = to_f16(value);
        std::memcpy(scales, &half, sizeof half);
        scales += sizeof half;
      } else {
        std::memcpy(scales, &value, sizeof value);
        scales += sizeof value;
      }
    };
    put_scale(part.scale);
    if (block_codes(view.codes).min) put_scale(part.min);
  }
}

// Eight e2m1 values with their signs where kernels want them (kernels/cuda/linear_layout.h).
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

// The scale of block `b` of row `n` to `to`; NaN where a weight of the block is.
void pack_scale(const WeightView& view, const CudaLinear& packed, int n, int b, bool nan, std::byte* to) {
  if (packed.scale_kind == CudaScaleKind::kE8m0 && (nan || view.scale_format == ScaleFormat::kNone)) {
    *to = nan ? std::byte{0xFF} : std::byte{127};
    return;
  }
  const auto index =
      static_cast<std::size_t>((view.first_row + n) / view.block_out) * static_cast<std::size_t>(view.scale_columns) +
      static_cast<std::size_t>(b);
  const auto bytes = static_cast<std::size_t>(bytes_of(packed.scale_kind));
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
    } else if (view.format == WeightFormat::kMxfp4) {
      const auto bytes = static_cast<std::size_t>((count + 1) / 2);
      std::memcpy(nibbles, from + first / 2, bytes);
      if (count % 2 != 0) nibbles[bytes - 1] &= std::byte{0x0F};  // a row may end in the middle of a byte
      std::memset(nibbles + bytes, 0, sizeof nibbles - bytes);
      for (std::byte* word = nibbles; word < nibbles + sizeof nibbles; word += 4) {
        std::uint32_t values;
        std::memcpy(&values, word, sizeof values);
        values = signs_apart(values);
        std::memcpy(word, &values, sizeof values);
      }
      put_block(to, nibbles, sizeof nibbles, b, row);
    } else {
      const auto width = static_cast<std::size_t>(kChunkBytes / inputs_of_chunk(to.kind));
      put_block(to, from + static_cast<std::size_t>(first) * width, static_cast<std::size_t>(count) * width, b, row);
    }
    if (to.scale_kind == CudaScaleKind::kNone) continue;
    const bool nan = view.format == WeightFormat::kFp8 && has_nan(from + first, count);
    pack_scale(view, to, n, b, nan, scales + b * bytes_of(to.scale_kind));
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
  kind = kind_of(view);
  scale_kind = scale_kind_of(view);
  out = view.out;
  in = view.in;
  block = view.format == WeightFormat::kTransposedCodes ? 128 : view.block_inputs();
  SLUICE_CHECK(view.format != WeightFormat::kMxfp4 || block == 32, "MXFP4 has one scale for 32 inputs");
  blocks = (in + block - 1) / block;
  chunks = (block + inputs_of_chunk(kind) - 1) / inputs_of_chunk(kind);
  if (view.format == WeightFormat::kCodes) lowest = block_codes(view.codes).lowest;
  row_bytes = static_cast<std::size_t>(blocks) * static_cast<std::size_t>(chunks) * kChunkBytes;
  scales_at = row_bytes * static_cast<std::size_t>(out);
  scale_row_bytes = (static_cast<std::size_t>(blocks) * static_cast<std::size_t>(bytes_of(scale_kind)) + 3) / 4 * 4;
}

const LinearPacking& cuda_linear_packing() {
  static constexpr LinearPacking kPacking{packed_bytes, pack, 1};
  return kPacking;
}

}  // namespace sluice
