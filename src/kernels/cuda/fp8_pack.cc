#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/formats/number_formats.h"
#include "kernels/cuda/fp8_layout.h"
#include "kernels/cuda/strip_layout.h"

namespace sluice {
namespace {

std::size_t fp8_tile_bytes(const WeightView& view) {
  return Fp8Linear::takes(view) ? Fp8Linear(view).bytes() : sm90_linear_packing().packed_bytes(view);
}

// Packs a block of a tile.
void pack_fp8_tile(const WeightView& view, const Fp8Linear& to, int tile, int block, std::byte* packed) {
  const std::size_t index =
      static_cast<std::size_t>(tile) * static_cast<std::size_t>(to.blocks) + static_cast<std::size_t>(block);
  std::byte* codes = packed + index * kFp8TileBytes;
  const int first = tile * kFp8Outputs, k = block * kFp8Inputs;
  const int rows = std::min(kFp8Outputs, view.out - first), inputs = std::min(kFp8Inputs, view.in - k);
  std::memset(codes, 0, kFp8TileBytes);
  for (int row = 0; row < rows; ++row) {
    const std::byte* from = view.data + static_cast<std::size_t>(first + row) * view.row_bytes() + k;
    for (int piece = 0; piece < inputs; piece += 16) {
      std::memcpy(codes + fp8_byte(row, piece), from + piece, static_cast<std::size_t>(std::min(16, inputs - piece)));
    }
  }
  float scales[kFp8TileScales] = {};
  for (int i = 0; i * kFp8ScaleOutputs < rows; ++i) scales[i] = view.scale(first + i * kFp8ScaleOutputs, k);
  std::memcpy(packed + to.scales_at + index * sizeof scales, scales, sizeof scales);
}

void pack_fp8_tiles(const WeightView& view, int begin, int end, std::byte* packed) {
  if (!Fp8Linear::takes(view)) return sm90_linear_packing().pack(view, begin, end, packed);
  const KeepDenormals exact;
  const Fp8Linear to(view);
  for (int tile = begin / kFp8Outputs; tile * kFp8Outputs < end; ++tile) {
    for (int block = 0; block < to.blocks; ++block) pack_fp8_tile(view, to, tile, block, packed);
  }
}

}  // namespace

bool Fp8Linear::takes(const WeightView& view) {
  if (view.format != WeightFormat::kFp8) return false;
  if (view.scale_format == ScaleFormat::kNone) return true;
  return view.block_in % kFp8Inputs == 0 && view.block_out % kFp8ScaleOutputs == 0 &&
         view.first_row % kFp8ScaleOutputs == 0;
}

Fp8Linear::Fp8Linear(const WeightView& view)
    : out(view.out),
      in(view.in),
      tiles((view.out + kFp8Outputs - 1) / kFp8Outputs),
      blocks((view.in + kFp8Inputs - 1) / kFp8Inputs),
      scales_at(static_cast<std::size_t>(tiles) * static_cast<std::size_t>(blocks) * kFp8TileBytes) {
  SLUICE_CHECK(takes(view), "an FP8 weight that has such tiles");
}

const LinearPacking& sm90_fp8_linear_packing() {
  static constexpr LinearPacking kTiles{fp8_tile_bytes, pack_fp8_tiles, kFp8Outputs};
  static const LinearPacking packing = [] {
    LinearPacking all = sm90_linear_packing();
    all.fp8_blocks = &kTiles;
    return all;
  }();
  return packing;
}

}  // namespace sluice
