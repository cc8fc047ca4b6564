// Rings in shared memory through which warps stream strips of experts' weights, a chunk at a time.
#pragma once

#include "kernels/cuda/sm90/pipeline.h"

namespace sluice::cuda_sm90 {

inline constexpr int kChunkCellBytes = 2048, kChunkBytes = 2192;  // of a ring: cells, then their scales
inline constexpr int kBarrierAt = 2176;                           // and the barrier that says when they have arrived
template <StripKind kKind>
inline constexpr int kChunkCells = kChunkCellBytes / (Cell<kKind>::kWords * 512);
template <StripKind kKind>
inline constexpr int kChunkScaleBytes = kKind == StripKind::kMxfp4 ? kChunkCells<kKind> * 32 : 16;

SLUICE_DEVICE void init_chunk(const std::byte* stage) {
  init_barrier(shared_address(stage) + kBarrierAt, 1);
}
// By one lane.
SLUICE_DEVICE void start_chunk(const std::byte* stage, const std::byte* cells, const std::byte* scales,
                               int scale_bytes) {
  const std::uint32_t to = shared_address(stage), barrier = to + kBarrierAt;
  arrive_and_expect(barrier, kChunkCellBytes + scale_bytes);
  bulk_copy(to, cells, kChunkCellBytes, barrier);
  bulk_copy(to + kChunkCellBytes, scales, scale_bytes, barrier);
}
SLUICE_DEVICE void wait_for_chunk(const std::byte* stage, int parity) {
  wait_phase(shared_address(stage) + kBarrierAt, parity);
}
// Cell `i` of a chunk that has arrived.
template <StripKind kKind>
SLUICE_DEVICE void take_cell(const std::byte* stage, int i, int lane, Cell<kKind>& cell) {
#pragma unroll
  for (int k = 0; k < Cell<kKind>::kWords; ++k) {
    cell.words[k] = *reinterpret_cast<const uint4*>(stage + (i * Cell<kKind>::kWords + k) * 512 + lane * 16);
  }
  cell.take_scales(stage + kChunkCellBytes + (kKind == StripKind::kMxfp4 ? i * 32 : 0), lane);
}

}  // namespace sluice::cuda_sm90
