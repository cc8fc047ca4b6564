#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "base/rendezvous_testing.h"

namespace sluice::thread_pool_test {
namespace {

TEST(ThreadPool, RunsEveryTileOnceForAnyNumberOfThreads) {
  for (int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 200; ++round) {
      const int tiles = round % 37;
      std::vector<std::atomic<int>> hits(static_cast<std::size_t>(tiles));
      pool.run(tiles, [&](int tile, int thread) {
        ASSERT_GE(thread, 0);
        ASSERT_LT(thread, threads);
        hits[static_cast<std::size_t>(tile)].fetch_add(1);
      });
      for (const auto& hit : hits) EXPECT_EQ(hit.load(), 1);
    }
  }
}

TEST(ThreadPool, EveryThreadTakesPart) {
  for (int threads : {1, 2, 3, 5}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (int round = 0; round < 3; ++round) {
      Rendezvous rendezvous(threads);
      std::atomic<int> met{0}, numbers{0};
      pool.run(threads, [&](int, int thread) {
        met += rendezvous.come();
        numbers += 1 << thread;  // each has a number of its own
      });
      ASSERT_EQ(met, threads);
      EXPECT_EQ(numbers, (1 << threads) - 1);
    }
  }
}

TEST(ThreadPool, FlushesDenormalsOnEveryThread) {
  ThreadPool pool(4);
  volatile float tiny = 1e-38F;
  std::atomic<int> not_flushed{0};
  pool.run(64, [&](int, int) {
    if (tiny * 0.01F != 0.0F) not_flushed.fetch_add(1);
  });
  EXPECT_EQ(not_flushed.load(), 0);
}

}  // namespace
}  // namespace sluice::thread_pool_test
