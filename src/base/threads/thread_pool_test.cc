#include "base/threads/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "base/rendezvous_testing.h"
#include "base/test_seed_testing.h"

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

// Jobs one right after the other, of pieces that take no time or are delayed at random, on more threads than cores: no
// piece is lost, run twice, or run after its job has ended.
TEST(ThreadPool, RunsEveryTileOnceInAnyInterleaving) {
  const std::uint32_t seed = test_seed();
  SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  for (const int threads : {2, 3, 7, 16}) {
    ThreadPool pool(threads);
    for (int job = 0; job < 150; ++job) {
      const int tiles = static_cast<int>(random() % 40);
      const auto delays = static_cast<std::uint32_t>(random());
      std::atomic<bool> ended{false};
      std::vector<std::atomic<int>> hits(static_cast<std::size_t>(tiles));
      std::atomic<int> late{0};
      pool.run(tiles, [&, delays](int tile, int) {
        const std::uint32_t delay = (delays >> (tile % 29)) & 7U;
        if (delay == 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
        if (delay == 1) std::this_thread::yield();
        if (ended) ++late;
        hits[static_cast<std::size_t>(tile)].fetch_add(1);
      });
      ended = true;
      ASSERT_EQ(late.load(), 0);
      for (const auto& hit : hits) ASSERT_EQ(hit.load(), 1) << threads << " threads, job " << job;
    }
  }
}

// Inside a tile: its thread alone.
TEST(ThreadPool, APoolOfOneServesAnyNumberOfThreads) {
  ThreadPool pool(4), one(1);
  std::atomic<int> sum{0};
  pool.run(64, [&](int tile, int) { one.run(3, [&](int i, int) { sum += tile * 3 + i; }); });
  EXPECT_EQ(sum.load(), 192 * 191 / 2);
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
  volatile float tiny = 1e-38F;
  for (const int threads : {1, 4}) {
    ThreadPool pool(threads);
    for (const int tiles : {1, 2, 64}) {
      std::atomic<int> not_flushed{0};
      pool.run(tiles, [&](int, int) {
        if (tiny * 0.01F != 0.0F) not_flushed.fetch_add(1);
      });
      EXPECT_EQ(not_flushed.load(), 0) << tiles << " tiles, " << threads << " threads";
    }
  }
  EXPECT_NE(tiny * 0.01F, 0.0F) << "the caller's own arithmetic is as before";
}

}  // namespace
}  // namespace sluice::thread_pool_test
