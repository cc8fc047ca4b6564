// Cuts rows into tiles for drivers, and gives memory that a tile may use while it runs.
//
// Tiles follow from shapes alone. They decide which thread computes a row, never how.
// Used by kernels/cpu, kernels/cpu/attention, kernels/cpu/avx512_amx and kernels/cpu/linear.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>

#include "kernels/device/exec.h"

namespace sluice {

// A tile should be worth a few microseconds, or handing it to another thread costs more than it gains.
inline constexpr std::size_t kTileOperations = 131072;
// The operations of a tile of a pass over rows. It may be smaller, because such passes mostly wait for data that
// another thread wrote.
inline constexpr std::size_t kRowTileOperations = 32768;

// Calls tile(begin, end) for pieces of rows [0, rows), where a row is worth about `operations_per_row` f32 operations.
// A piece has at least `least` rows, except the last; these are worth computing together. Little work stays on this
// thread.
template <class Tile>
void run_row_tiles(const Exec& exec, int rows, std::size_t operations_per_row, const Tile& tile,
                   std::size_t least = 1) {
  if (rows <= 0) return;
  constexpr int kFewRows = 8;  // rows that one thread computes together
  if (rows == 1 || (rows <= kFewRows && exec.pool->threads() == 1)) {
    const auto all = [&](int, int) { tile(0, rows); };
    return exec.pool->run(1, std::ref(all));
  }
  const std::size_t wanted = kRowTileOperations / std::max<std::size_t>(operations_per_row, 1);
  const int rows_per_tile = static_cast<int>(std::clamp<std::size_t>(wanted, least, 1024));
  const auto run = [&](int index, int) {
    const int begin = index * rows_per_tile;
    tile(begin, std::min(rows, begin + rows_per_tile));
  };
  // By reference, so that std::function allocates nothing.
  exec.pool->run((rows + rows_per_tile - 1) / rows_per_tile, std::ref(run));
}

// Returns `exec` with a pool of the calling thread alone: for ops inside a tile.
Exec on_this_thread(const Exec& exec);

// Returns at least `floats` floats of the calling thread's scratch, aligned to 64 bytes. The thread's next call may
// move them.
float* thread_scratch(std::size_t floats);

}  // namespace sluice
