// Small moves in one kernel, because a separate copy of each would cost more than its bytes.
// Used by staging.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace sluice {

struct SmallMoves {
  static constexpr int kMost = 64;  // most moves of a kernel: its arguments have no room for more
  static constexpr std::size_t kMostBytes = std::size_t{32} << 10;  // most bytes of one move
  static constexpr std::size_t kAlignment = 16;                     // the alignment that `from` must have

  struct Move {
    std::byte* to;          // memory of the device
    const std::byte* from;  // pinned memory of the host, which stays as it is until the kernel is done
    std::uint32_t bytes;
  };
  std::array<Move, kMost> moves;
  int count = 0;
};

void enqueue_small_moves(void* stream, const SmallMoves& moves);  // a cudaStream_t

}  // namespace sluice
