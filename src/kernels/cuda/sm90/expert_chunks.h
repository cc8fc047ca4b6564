// Rings in shared memory through which warps stream strips of experts' weights, a chunk at a time.
// Used by expert_stream.cu and pair_experts.cu.
#pragma once

#include "kernels/cuda/sm90/pipeline.h"

namespace sluice::cuda_sm90 {

inline constexpr int kChunkCellBytes = 2048, kChunkBytes = 2192;  // bytes of a ring's chunk: cells, then their scales
inline constexpr int kBarrierAt = 2176;  // the offset of the barrier that says when a chunk has arrived
template <StripKind kKind>
inline constexpr int kChunkCells = kChunkCellBytes / (Cell<kKind>::kWords * 512);
static_assert(kFp4PieceBytes == kBarrierAt && kFp4PieceCells == kChunkCells<StripKind::kMxfp4>);

SLUICE_DEVICE void init_chunk(const std::byte* stage) {
  init_barrier(shared_address(stage) + kBarrierAt, 1);
}
// The chunks of a strip, one after the other. Chunks of MXFP4 are pieces; chunks of FP8 are cells that share the scales
// of a block.
struct ChunksAt {
  const std::byte *cells, *scales;  // the address of the next chunk; MXFP4 has no separate scales
  int left = 0;

  SLUICE_DEVICE void open(const StripLinear& w, const std::byte* data, int strip) {
    const StripAt at(w, data, strip);
    const bool fp4 = w.kind == StripKind::kMxfp4;
    cells = at.cells, scales = fp4 ? nullptr : at.scales;
    left = w.cells / (fp4 ? kChunkCells<StripKind::kMxfp4> : kChunkCells<StripKind::kFp8>);
  }
  // Skips `chunks` chunks of FP8.
  SLUICE_DEVICE void skip(int chunks) {
    cells += chunks * kChunkCellBytes, scales += chunks * 16;
    left -= chunks;
  }
  // Starts the copy of the next chunk to a stage, by lane 0.
  SLUICE_DEVICE void start(const std::byte* stage, int lane) {
    const bool fp4 = scales == nullptr;
    const int bytes = fp4 ? kFp4PieceBytes : kChunkCellBytes;
    if (lane == 0) {
      const std::uint32_t to = shared_address(stage), barrier = to + kBarrierAt;
      arrive_and_expect(barrier, fp4 ? bytes : bytes + 16);
      bulk_copy(to, cells, bytes, barrier);
      if (!fp4) bulk_copy(to + kChunkCellBytes, scales, 16, barrier);
    }
    cells += bytes;
    if (!fp4) scales += 16;
    --left;
  }
};
SLUICE_DEVICE void wait_for_chunk(const std::byte* stage, int parity) {
  wait_phase(shared_address(stage) + kBarrierAt, parity);
}
// Reads cell `i` of a chunk that has arrived.
template <StripKind kKind>
SLUICE_DEVICE void take_cell(const std::byte* stage, int i, int lane, Cell<kKind>& cell) {
#pragma unroll
  for (int k = 0; k < Cell<kKind>::kWords; ++k) {
    cell.words[k] = *reinterpret_cast<const uint4*>(stage + (i * Cell<kKind>::kWords + k) * 512 + lane * 16);
  }
  cell.take_scales(stage + kChunkCellBytes + (kKind == StripKind::kMxfp4 ? i * 32 : 0), lane);
}

}  // namespace sluice::cuda_sm90
