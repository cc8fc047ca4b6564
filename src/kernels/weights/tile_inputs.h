// Inputs in the order in which AMX tiles multiply them (InputForm::kTiles of kernels/ops/linear.h): [block of 16
// rows][slice of 32 inputs][row][input] of bf16. Each block and slice has 1 KB, so that a tile is 16 consecutive lines.
// Inputs past the end of a row are 0. Rows past the last one may hold anything: no row of a product depends on another.
// Thread safety: pure functions.
// Used by kernels/cpu/attention, kernels/cpu/avx512vbmi, kernels/cpu/linear and kernels/weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/ops/linear.h"

namespace sluice {

inline constexpr int kTileRows = 16, kSliceInputs = 32;
inline constexpr std::size_t kTileBytes = 1024, kTileLine = 64;

[[gnu::always_inline]] inline int slices_of(int in) {
  return (in + kSliceInputs - 1) / kSliceInputs;
}
[[gnu::always_inline]] inline int row_blocks_of(int rows) {
  return (rows + kTileRows - 1) / kTileRows;
}
[[gnu::always_inline]] inline std::size_t tile_input_bytes(int rows, int in) {
  return static_cast<std::size_t>(row_blocks_of(rows)) * static_cast<std::size_t>(slices_of(in)) * kTileBytes;
}
// Returns where the line of row `row` and the slice that begins at input `k` lies.
[[gnu::always_inline]] inline std::size_t tile_line_at(int row, int k, int in) {
  const auto block = static_cast<std::size_t>(row / kTileRows), slice = static_cast<std::size_t>(k / kSliceInputs);
  return (block * static_cast<std::size_t>(slices_of(in)) + slice) * kTileBytes +
         static_cast<std::size_t>(row % kTileRows) * kTileLine;
}

// Writes inputs [k, k + count) of row `row`. The memory at `x` holds them as bf16 values, input k first. A slice begins
// at k; k + count is where a slice ends,
// or `in`.
[[gnu::always_inline]] inline void put_tile_inputs(const float* x, int row, int k, int count, int in,
                                                   std::byte* tiles) {
  const auto* from = reinterpret_cast<const std::byte*>(x);
  std::byte* to = tiles + tile_line_at(row, k, in);
  int left = count;
  for (; left >= kSliceInputs; left -= kSliceInputs, from += kTileLine, to += kTileBytes) {
    std::memcpy(to, from, kTileLine);
  }
  if (left == 0) return;
  const auto bytes = static_cast<std::size_t>(left) * sizeof(std::uint16_t);
  std::memcpy(to, from, bytes);
  std::memset(to + bytes, 0, kTileLine - bytes);
}

// Writes rows [begin, end) of a job.
[[gnu::always_inline]] inline void put_tile_rows(const LinearJob& job, int begin, int end, std::byte* tiles) {
  const int in = job.weight->in();
  for (int r = begin; r < end; ++r) put_tile_inputs(job.x_row(r), r, 0, in, in, tiles);
}

}  // namespace sluice
