// Used by staging.h.
#include "kernels/cuda/runtime/small_moves.h"

#include <cuda_runtime.h>

namespace sluice {
namespace {

constexpr int kThreads = 256;

template <class T>
__device__ std::uint32_t copy_whole(const SmallMoves::Move& move) {
  const std::uint32_t count = move.bytes / sizeof(T);
  for (std::uint32_t i = threadIdx.x; i < count; i += kThreads) {
    reinterpret_cast<T*>(move.to)[i] = reinterpret_cast<const T*>(move.from)[i];
  }
  return count * sizeof(T);
}

// Each block does one move.
__global__ void __launch_bounds__(kThreads) move_small(const __grid_constant__ SmallMoves moves) {
  const SmallMoves::Move& move = moves.moves[blockIdx.x];
  const auto to = reinterpret_cast<std::uintptr_t>(move.to);
  const std::uint32_t done = to % sizeof(uint4) == 0          ? copy_whole<uint4>(move)
                             : to % sizeof(std::uint32_t) == 0 ? copy_whole<std::uint32_t>(move)
                                                              : 0;
  for (std::uint32_t i = done + threadIdx.x; i < move.bytes; i += kThreads) move.to[i] = move.from[i];
}

}  // namespace

void enqueue_small_moves(void* stream, const SmallMoves& moves) {
  move_small<<<static_cast<unsigned>(moves.count), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(moves);
}

}  // namespace sluice
