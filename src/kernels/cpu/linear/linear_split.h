// Cuts the outputs of several products into pieces and runs them in one fork/join.
//
// A product of `rows` x `out` is a grid of row chunks x output tiles. The grids of all products, one after the other,
// form one line of tiles. Each piece is a contiguous part of the line, so that a thread streams contiguous weights. The
// cuts change no result: an output element's order is inside its tile (kernels/ops/linear.h).
// Used by cpu_linear.cc, kernels/cpu/cpu_experts.cc and kernels/cpu/cpu_hyper_connection.cc.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/device/exec.h"
#include "kernels/weights/tile_inputs.h"

namespace sluice {

struct LinearExtent {
  int rows = 0, out = 0, in = 0;
  bool tiles = false;  // inputs are tiles (kernels/weights/tile_inputs.h): pieces have whole blocks of rows
  int unit = 0;        // the outputs of a one-row piece are a multiple of this; 0: of a tile's outputs
};

// A rectangle of one product's outputs.
struct LinearPiece {
  int item = 0, row_begin = 0, row_end = 0, out_begin = 0, out_end = 0;
};

// The outputs of a product as a line of units: [chunk of rows][tile][part of the tile]. A part has some of the chunk's
// rows, or with one row some of the tile's outputs. The last pieces of a fork are cut into parts. Reading half a tile,
// or decoding it for few rows, takes longer than half of the time of a whole one, so that longer pieces have whole
// ones.
class LinearGrid {
  static constexpr int kTileOutputs = 32;

 public:
  LinearGrid(const LinearExtent& extent, int out_tile) : extent_(extent), out_tile_(out_tile) {
    if (extent.tiles && extent.rows > kTileRows) out_tile_ = kTileOutputs;
    tiles_ = (extent.out + out_tile_ - 1) / out_tile_;
    // There are enough rows that decoding a weight costs little, and few enough that narrow products still spread over
    // the threads.
    const int most = extent.tiles ? (tiles_ >= 8 ? 256 : 32) : tiles_ >= 8 ? 192 : 24;
    const int chunks = (extent.rows + most - 1) / most;
    if (chunks == 0) return;
    // A multiple of 6, the rows of the widest register tile, or of the rows of a block of tiles.
    const int unit = extent.tiles ? kTileRows : 6;
    chunk_rows_ = std::min(extent.rows, ((extent.rows + chunks - 1) / chunks + unit - 1) / unit * unit);
    chunks_ = (extent.rows + chunk_rows_ - 1) / chunk_rows_;
    // Few rows are decoded four at a time anyway; with many, a part is worth decoding weights once more.
    constexpr int kFewRows = 16;
    part_rows_ = extent.tiles ? chunk_rows_ : std::min(chunk_rows_, chunk_rows_ <= kFewRows ? 4 : 24);
    part_outputs_ = extent.rows == 1 && extent.unit > 0 ? std::min(extent.unit, out_tile_) : out_tile_;
    parts_ = std::max((chunk_rows_ + part_rows_ - 1) / part_rows_, out_tile_ / part_outputs_);
  }
  std::int64_t tile_cost() const { return part_cost() * parts_; }
  std::int64_t cost() const { return part_cost() * parts(); }
  // Returns the number of parts that begin before `at`, in units of cost. With in_tiles, it is rounded up to whole
  // tiles.
  std::int64_t parts_before(std::int64_t at, bool in_tiles) const {
    const std::int64_t unit = in_tiles ? tile_cost() : part_cost();
    if (unit == 0 || at <= 0) return 0;
    return std::min(parts(), (at + unit - 1) / unit * (in_tiles ? parts_ : 1));
  }

  // Calls run for all of a product. Up to kOneChunk rows are one chunk, whose tiles are joined, whatever the grid is.
  template <class Run>
  static void walk_all(const LinearExtent& extent, int out_tile, int item, const Run& run) {
    constexpr int kOneChunk = 24;
    if (extent.rows <= kOneChunk) {
      if (extent.rows > 0 && extent.out > 0) run(LinearPiece{item, 0, extent.rows, 0, extent.out});
      return;
    }
    const LinearGrid grid(extent, out_tile);
    grid.walk(item, 0, grid.parts(), run);
  }
  // Calls run for parts [at, end), once for consecutive whole tiles of a chunk.
  template <class Run>
  void walk(int item, std::int64_t at, std::int64_t end, const Run& run) const {
    while (at < end) {
      const auto row = static_cast<int>(at / (std::int64_t{1} * tiles_ * parts_)) * chunk_rows_;
      const int last_row = std::min(extent_.rows, row + chunk_rows_);
      const auto tile = static_cast<int>(at / parts_ % tiles_), part = static_cast<int>(at % parts_);
      const int out = tile * out_tile_;
      if (part == 0 && end - at >= parts_) {
        const auto count = static_cast<int>(std::min<std::int64_t>((end - at) / parts_, tiles_ - tile));
        run(LinearPiece{item, row, last_row, out, std::min(extent_.out, out + count * out_tile_)});
        at += std::int64_t{1} * count * parts_;
        continue;
      }
      const auto count = static_cast<int>(std::min<std::int64_t>(end - at, parts_ - part));
      LinearPiece piece{item, row, last_row, out, std::min(extent_.out, out + out_tile_)};
      if (part_outputs_ < out_tile_) {
        piece.out_begin = out + part * part_outputs_;
        piece.out_end = std::min(piece.out_end, piece.out_begin + count * part_outputs_);
      } else {
        piece.row_begin = row + part * part_rows_;
        piece.row_end = std::min(last_row, piece.row_begin + count * part_rows_);
      }
      if (piece.row_begin < piece.row_end && piece.out_begin < piece.out_end) run(piece);
      at += count;
    }
  }

 private:
  std::int64_t part_cost() const {
    return std::int64_t{1} * part_rows_ * std::min(part_outputs_, extent_.out) * extent_.in;
  }
  std::int64_t parts() const { return std::int64_t{1} * tiles_ * chunks_ * parts_; }

  LinearExtent extent_;
  int out_tile_ = 1, tiles_ = 0, chunks_ = 0, chunk_rows_ = 0;
  int part_rows_ = 0, part_outputs_ = 1, parts_ = 1;  // rows and outputs of a part; parts of a tile
};

// Multiply-adds that a fork must bring each thread to be worth its cost, and those of the smallest piece: some
// microseconds of a thread that reads the weights from memory.
inline constexpr std::int64_t kForkMacs = 16 << 10;
inline constexpr std::int64_t kPieceMacs = 64 << 10;

// Pieces of `total` in rounds, one for each thread in a round. A round has half of what is left, the last one all of
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
  // Returns where piece `i` begins; begin(count()) is the end.
  std::int64_t begin(int i) const {
    const int round = i / threads_;
    if (round >= rounds_) return total_;
    const std::int64_t left = total_ >> round;  // what is left, except for rounding
    return total_ - left + taken_in(round) * (i % threads_) / threads_;
  }
  // Returns the first piece that is shorter than `least`.
  int first_below(std::int64_t least) const {
    int round = 0;
    while (round < rounds_ && taken_in(round) / threads_ >= least) ++round;
    return round * threads_;
  }
  // Returns the first part of piece `i` in `grid`, which begins at `base` of the line. Long pieces have whole tiles.
  std::int64_t first_part(int i, const LinearGrid& grid, std::int64_t base) const {
    const int in_tiles = first_below(grid.tile_cost());
    const std::int64_t whole = grid.parts_before(begin(std::min(i, in_tiles)) - base, true);
    return i <= in_tiles ? whole : std::max(whole, grid.parts_before(begin(i) - base, false));
  }

 private:
  std::int64_t taken_in(int round) const {
    const std::int64_t left = total_ >> round;
    return round + 1 < rounds_ ? left - (left >> 1) : left;
  }

  std::int64_t total_;
  int threads_, rounds_ = 1;
};

// extent(i) for i in [0, items) is a LinearExtent; run(piece) computes one rectangle, on any thread. The fork's first
// pieces are first(i) for i in [0, firsts).
template <class Extent, class Run, class First>
void split_linear(ThreadPool& pool, int out_tile, int items, Extent extent, Run run, int firsts, First first) {
  struct Placed {
    LinearGrid grid;
    std::int64_t base;
  };
  thread_local std::vector<Placed> of_thread;
  std::vector<Placed>& grids = of_thread;  // a reference, since a pool's thread would name its own thread_local
  const auto all = [&](int, int) {
    for (int i = 0; i < firsts; ++i) first(i);
    for (int i = 0; i < items; ++i) LinearGrid::walk_all(extent(i), out_tile, i, run);
  };
  if (pool.threads() == 1) return pool.run(1, std::ref(all));
  grids.clear();
  std::int64_t total = 0;
  for (int i = 0; i < items; ++i) {
    grids.push_back({LinearGrid(extent(i), out_tile), total});
    total += grids.back().grid.cost();
  }
  const LinearPieces pieces(total, pool.threads());
  const auto run_piece = [&](int piece) {
    const std::int64_t from = pieces.begin(piece), to = pieces.begin(piece + 1);
    for (int i = 0; i < items; ++i) {
      const auto& [grid, base] = grids[static_cast<std::size_t>(i)];
      if (base >= to) break;
      if (base + grid.cost() <= from) continue;
      grid.walk(i, pieces.first_part(piece, grid, base), pieces.first_part(piece + 1, grid, base), run);
    }
  };
  const auto any = [&](int index, int) { index < firsts ? first(index) : run_piece(index - firsts); };
  if (pieces.count() == 1) {
    pool.run(1, std::ref(all));
  } else {
    pool.run(firsts + pieces.count(), std::ref(any));
  }
}
template <class Extent, class Run>
void split_linear(ThreadPool& pool, int out_tile, int items, Extent extent, Run run) {
  split_linear(pool, out_tile, items, extent, run, 0, [](int) {});
}

}  // namespace sluice
