// Cuts the outputs of several products into pieces and runs them in one fork/join.
//
// A product of `rows` x `out` is a grid of row chunks x output tiles; the grids of all products, one after the other,
// form one line of tiles, and each piece is a contiguous part of it, so that a thread streams contiguous weights. How
// the line is cut changes no result: an output element's order is inside its tile (kernels/linear.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>

#include "kernels/exec.h"
#include "kernels/tile_inputs.h"

namespace sluice {

struct LinearExtent {
  int rows = 0, out = 0, in = 0;
  bool tiles = false;  // inputs are tiles (kernels/tile_inputs.h): whole blocks of rows, fewer outputs at a time
};

// A rectangle of one product's outputs.
struct LinearPiece {
  int item = 0, row_begin = 0, row_end = 0, out_begin = 0, out_end = 0;
};

class LinearGrid {
  static constexpr int kTileOutputs = 32;

 public:
  LinearGrid(const LinearExtent& extent, int out_tile)
      : extent_(extent), out_tile_(extent.tiles && extent.rows > kTileRows ? kTileOutputs : out_tile) {
    out_tile = out_tile_;
    tiles_ = (extent.out + out_tile - 1) / out_tile;
    // Enough rows that decoding a weight costs little, few enough that narrow products still spread over the threads.
    const int most = extent.tiles ? (tiles_ >= 8 ? 256 : 32) : tiles_ >= 8 ? 192 : 24;
    chunks_ = (extent.rows + most - 1) / most;
    // A multiple of 6, the rows of the widest register tile, or of a block of tiles.
    const int unit = extent.tiles ? kTileRows : 6;
    if (chunks_ > 0) chunk_rows_ = ((extent.rows + chunks_ - 1) / chunks_ + unit - 1) / unit * unit;
    if (chunk_rows_ > 0) chunks_ = (extent.rows + chunk_rows_ - 1) / chunk_rows_;
  }
  std::int64_t tile_cost() const {
    return std::int64_t{1} * std::min(chunk_rows_, extent_.rows) * std::min(out_tile_, extent_.out) * extent_.in;
  }
  std::int64_t cost() const { return tile_cost() * tiles_ * chunks_; }

  // Calls run for the tiles whose start lies in [from, to) of this grid's cost, tiles of one row chunk joined.
  template <class Run>
  void walk(int item, std::int64_t from, std::int64_t to, Run& run) const {
    const std::int64_t unit = tile_cost();
    if (unit == 0) return;
    const std::int64_t all = std::int64_t{1} * tiles_ * chunks_;
    const std::int64_t end = std::min(all, ceil_div(to, unit));
    for (std::int64_t at = ceil_div(std::max<std::int64_t>(from, 0), unit); at < end;) {
      const auto chunk = static_cast<int>(at / tiles_);
      const auto tile = static_cast<int>(at % tiles_);
      const auto count = static_cast<int>(std::min<std::int64_t>(end - at, tiles_ - tile));
      run(LinearPiece{item, chunk * chunk_rows_, std::min(extent_.rows, (chunk + 1) * chunk_rows_), tile * out_tile_,
                      std::min(extent_.out, (tile + count) * out_tile_)});
      at += count;
    }
  }

 private:
  static std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a <= 0 ? 0 : (a + b - 1) / b; }

  LinearExtent extent_;
  int out_tile_ = 1, tiles_ = 0, chunks_ = 0, chunk_rows_ = 0;
};

// Multiply-adds that a fork must bring each thread to be worth its cost, and those of the smallest piece.
inline constexpr std::int64_t kForkMacs = 32 << 10;
inline constexpr std::int64_t kPieceMacs = 256 << 10;

// Pieces of `total` in rounds, one for each thread in a round: a round takes half of what is left, the last one all of
// it. Long pieces stream weights well; the short ones at the end make the threads finish together, even if the system
// delays one.
class LinearPieces {
 public:
  LinearPieces(std::int64_t total, int threads) : total_(total), threads_(threads) {
    if (total < threads * kForkMacs) {
      threads_ = static_cast<int>(std::max<std::int64_t>(total / kForkMacs, 1));
      return;
    }
    while (threads > 1 && rounds_ < 8 && (total >> rounds_) / threads >= kPieceMacs) ++rounds_;
  }
  int count() const { return threads_ * rounds_; }
  // Where piece `i` begins; that of count() is the end.
  std::int64_t begin(int i) const {
    const int round = i / threads_;
    if (round >= rounds_) return total_;
    const std::int64_t left = total_ >> round;  // but for what rounding leaves to the rounds before
    const std::int64_t taken = round + 1 < rounds_ ? left - (left >> 1) : left;
    return total_ - left + taken * (i % threads_) / threads_;
  }

 private:
  std::int64_t total_;
  int threads_, rounds_ = 1;
};

// extent(i) for i in [0, items) is a LinearExtent; run(piece) computes one rectangle, on any thread.
template <class Extent, class Run>
void split_linear(ThreadPool& pool, int out_tile, int items, Extent extent, Run run) {
  std::int64_t total = 0;
  for (int i = 0; i < items; ++i) total += LinearGrid(extent(i), out_tile).cost();
  const LinearPieces pieces(total, pool.threads());
  auto run_piece = [&](int piece, int) {
    const std::int64_t from = pieces.begin(piece), to = pieces.begin(piece + 1);
    std::int64_t base = 0;
    for (int i = 0; i < items && base < to; ++i) {
      const LinearGrid grid(extent(i), out_tile);
      const std::int64_t cost = grid.cost();
      if (base + cost > from) grid.walk(i, from - base, to - base, run);
      base += cost;
    }
  };
  pool.run(pieces.count(), std::ref(run_piece));
}

}  // namespace sluice
