// The cuts of products into pieces: whatever the shapes and the number of threads, every output is in one piece.
#include "kernels/cpu/linear/linear_split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <random>
#include <vector>

#include "base/test_seed_testing.h"

namespace sluice::linear_split_test {
namespace {

constexpr int kTile = 64, kGroup = 16;

struct Cut {
  std::vector<LinearExtent> extents;
  std::vector<std::vector<LinearPiece>> pieces;  // by piece of the fork
};

// The pieces of split_linear(), without threads.
Cut cut(const std::vector<LinearExtent>& extents, int threads) {
  ThreadPool pool(threads);
  Cut result{extents, {}};
  std::mutex mutex;
  split_linear(
      pool, kTile, static_cast<int>(extents.size()), [&](int i) { return extents[static_cast<std::size_t>(i)]; },
      [&](const LinearPiece& piece) {
        const std::lock_guard lock(mutex);
        result.pieces.push_back({piece});
      });
  return result;
}

TEST(LinearSplit, EveryOutputIsInOnePiece) {
  const std::uint32_t seed = test_seed();
  SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int round = 0; round < 300; ++round) {
    std::vector<LinearExtent> extents;
    for (int i = 1 + below(5); i > 0; --i) {
      const int rows = below(3) == 0 ? 1 : 1 + below(below(4) == 0 ? 600 : 40);
      const int units[] = {0, kGroup, 2 * kGroup};
      extents.push_back({rows, 1 + below(below(3) == 0 ? 2000 : 200), 32 * (1 + below(64)), rows > 1 && below(3) == 0,
                         units[below(3)]});
    }
    std::vector<std::vector<int>> hits;
    for (const LinearExtent& extent : extents) {
      hits.emplace_back(static_cast<std::size_t>(extent.rows) * static_cast<std::size_t>(extent.out));
    }
    for (const auto& pieces : cut(extents, 1 + below(17)).pieces) {
      for (const LinearPiece& piece : pieces) {
        const LinearExtent& extent = extents[static_cast<std::size_t>(piece.item)];
        const int unit = extent.rows == 1 && extent.unit > 0 ? extent.unit : extent.tiles ? 2 * kGroup : kTile;
        ASSERT_LT(piece.row_begin, piece.row_end);
        ASSERT_LT(piece.out_begin, piece.out_end);
        ASSERT_LE(piece.row_end, extent.rows);
        ASSERT_LE(piece.out_end, extent.out);
        ASSERT_EQ(piece.out_begin % unit, 0);
        ASSERT_TRUE(piece.out_end % unit == 0 || piece.out_end == extent.out);
        if (extent.tiles) {
          ASSERT_EQ(piece.row_begin % kTileRows, 0);
        }
        for (int row = piece.row_begin; row < piece.row_end; ++row) {
          for (int out = piece.out_begin; out < piece.out_end; ++out) {
            ++hits[static_cast<std::size_t>(piece.item)][static_cast<std::size_t>(row * extent.out + out)];
          }
        }
      }
    }
    for (const auto& of_item : hits) {
      ASSERT_EQ(std::ranges::count(of_item, 1), static_cast<std::ptrdiff_t>(of_item.size())) << "round " << round;
    }
  }
}

// A product of few outputs leaves small pieces for the thread that is done first.
TEST(LinearSplit, OneRowEndsInSmallPieces) {
  constexpr int kThreads = 8, kOut = 1024, kIn = 2048;
  const Cut result = cut({{1, kOut, kIn, false, 2 * kGroup}}, kThreads);
  ASSERT_GE(result.pieces.size(), 3U * kThreads / 2);
  int parts = 0, tiles = 0;
  for (const auto& pieces : result.pieces) {
    const int outputs = pieces[0].out_end - pieces[0].out_begin;
    parts += outputs == 2 * kGroup;
    tiles += outputs / kTile;
  }
  EXPECT_GE(parts, kThreads);          // the last pieces are parts of tiles
  EXPECT_GE(tiles, kOut / kTile / 2);  // the pieces before it stream whole tiles
}

// With several rows, the pieces at the end are some rows of a tile.
TEST(LinearSplit, SomeRowsEndInPartsOfATile) {
  constexpr int kThreads = 8, kRows = 16;
  const Cut result = cut({{kRows, 8 * kTile, 2048}}, kThreads);
  EXPECT_GE(result.pieces.size(), 2U * kThreads);
  EXPECT_TRUE(std::ranges::any_of(result.pieces,
                                  [](const auto& pieces) { return pieces[0].row_end - pieces[0].row_begin < kRows; }));
}

}  // namespace
}  // namespace sluice::linear_split_test
