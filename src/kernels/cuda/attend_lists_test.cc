// The queries and keys that the kernels of the profile sm90 work on together.
#include "kernels/cuda/sm90/attend_lists.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "kernels/tests/op_testing.h"

namespace sluice::attend_lists_test {
namespace {

using cuda_sm90::ItemRange;
using cuda_sm90::kListBlock;
using cuda_sm90::QueryTiles;
using cuda_sm90::segment_begin;
using cuda_sm90::segment_of;

TEST(AttendLists, SegmentsFollowEachOtherAndGrow) {
  int begin = 0;
  for (int segment = 0; begin <= 1 << 20; ++segment) {
    ASSERT_EQ(segment_begin(segment), begin);
    const int length = begin < 8192 ? 512 : begin < 65536 ? 1024 : 4096;
    ASSERT_EQ(length % kListBlock, 0);
    for (const int item : {begin, begin + 1, begin + length / 2, begin + length - 1})
      ASSERT_EQ(segment_of(item), segment);
    begin += length;
  }
}

TEST(AttendLists, ARangeKnowsItsSegments) {
  EXPECT_EQ((ItemRange{0, 0}).segments(), 0);
  EXPECT_EQ((ItemRange{700, 700}).segments(), 0);
  EXPECT_EQ((ItemRange{0, 512}).segments(), 1);
  EXPECT_EQ((ItemRange{511, 513}).segments(), 2);
  EXPECT_EQ((ItemRange{0, 1 << 20}).segments(), 72 + 240);
  EXPECT_EQ((ItemRange{8191, 8193}).segments(), 2);
  EXPECT_EQ((ItemRange{8200, 8300}).first_segment(), 16);
}

// Every query of every span is in one tile. The tile has no other span and, by rows, no other row.
TEST(AttendLists, TilesHaveEveryQueryOnce) {
  Random random(31);
  for (int turn = 0; turn < 2000; ++turn) {
    const QueryTiles tiles{random.between(1, 140), random.pick(std::vector<int>{64, 128}), random.between(0, 1) == 0};
    const bool by_row = tiles.by_row || tiles.sharing % tiles.queries == 0;
    const QueryTiles used{tiles.sharing, tiles.queries, by_row};
    int row = 0, next = 0;
    for (int span = 0, spans = random.between(1, 9); span < spans; ++span) {
      const int rows = random.pick(std::vector<int>{1, 1, 2, 5, 63, 64, 300});
      ASSERT_GE(used.first(row, span), next) << "tiles of spans overlap";
      next = used.first(row, span) + used.count(rows);
      int query = 0;
      for (int tile = 0; tile < used.count(rows); ++tile) {
        const int first = used.first_query(tile), count = used.queries_of(tile, rows);
        ASSERT_EQ(first, query);
        ASSERT_TRUE(count > 0 && count <= used.queries);
        if (by_row) {
          ASSERT_EQ(first / used.sharing, (first + count - 1) / used.sharing);
        }
        query += count;
      }
      ASSERT_EQ(query, rows * used.sharing);
      row += rows;
    }
  }
}

}  // namespace
}  // namespace sluice::attend_lists_test
