// GPUs as ranks of a group (kernels/cuda/runtime/peer_exchange.h): the bits that they gather, in replayed graphs and
// with ranks that come late; and the end of a group with a rank that never comes, or whose GPU fails.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "base/test_seed_testing.h"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/launch.h"
#include "kernels/device/gather_case_testing.h"
#include "ranks_testing.h"

namespace sluice::gpu_ranks_test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using cuda_ops::Team;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Shapes for both ways of travelling, at their limits, and shapes of models: a row of 4,096 of 2 to 8 ranks, and many
// of them.
GatherCase random_case(Random& random, int ranks) {
  switch (random.between(0, 4)) {
    case 0: return {random, ranks, random.between(1, 20), random.between(1, 400)};
    case 1: return {random, ranks, random.between(1, 16), random.pick<int>({128, 512, 1024, 2048, 4096})};
    case 2: return {random, ranks, random.between(1, 40), kGatheredBlock * random.between(1, 9)};
    case 3: return {random, ranks, random.between(60, 300), random.pick<int>({512, 640, 1023, 2048})};
    default: return {random, ranks, random.between(7, 9), random.between(2040, 2056)};
  }
}

void try_cases(Ranks& ranks, int cases) {
  Random random(931);
  constexpr std::size_t kBytes = std::size_t{160} << 20;
  std::vector<DeviceMemory> memory;  // allocated at once, because ranks on one GPU would wait for each other's kernels
  for (int r = 0; r < ranks.count(); ++r) memory.push_back(ranks.device(r).map(kBytes, "a test").value());
  for (int i = 0; i < cases && !::testing::Test::HasFailure(); ++i) {
    const GatherCase each = random_case(random, ranks.count());
    ASSERT_LE(each.floats() * sizeof(float), kBytes) << each.text();
    std::vector<std::vector<std::uint32_t>> values;
    for (int r = 0; r < ranks.count(); ++r) {
      values.push_back(each.before(r));
      const auto* bytes = reinterpret_cast<const std::byte*>(values.back().data());
      ranks.device(r).upload({memory[static_cast<std::size_t>(r)].data(), bytes, each.floats() * sizeof(float)});
    }
    for (const int r : random.permutation(ranks.count())) {
      if (random.between(0, 9) == 0) std::this_thread::sleep_for(std::chrono::microseconds(random.between(0, 500)));
      all_gather(ranks.exec(r), each.args(reinterpret_cast<float*>(memory[static_cast<std::size_t>(r)].data())));
    }
    for (int r = 0; r < ranks.count(); ++r) {
      std::vector<std::uint32_t>& found = values[static_cast<std::size_t>(r)];
      ranks.device(r).download({reinterpret_cast<std::byte*>(found.data()), memory[static_cast<std::size_t>(r)].data(),
                                each.floats() * sizeof(float)});
      ranks.device(r).wait();
      ASSERT_TRUE(ranks.device(r).status().ok()) << ranks.device(r).status().message() << ", " << each.text();
      const std::vector<std::uint32_t> expected = each.after(r);
      const auto differs = std::ranges::mismatch(found, expected).in1 - found.begin();
      ASSERT_TRUE(found == expected) << "case " << i << ", rank " << r << ", word " << differs << ": " << each.text();
    }
  }
}

TEST(GpuRanks, HaveTheWholeRows) {
  Ranks ranks(default_ranks(), gpu_count(), 20s);
  ASSERT_TRUE(ranks.ok());
  try_cases(ranks, gpu_test_options().cases);
}

TEST(GpuRanks, MayShareAGpu) {
  Ranks two(2, 1, 20s);
  ASSERT_TRUE(two.ok());
  try_cases(two, 40);
  Ranks three(3, std::min(2, gpu_count()), 20s);
  ASSERT_TRUE(three.ok());
  try_cases(three, 40);
}

TEST(GpuRanks, ExchangeThroughTheHostWhereTheyMust) {
  Ranks ranks(default_ranks(), gpu_count(), 20s, true);
  ASSERT_TRUE(ranks.ok());
  EXPECT_TRUE(ranks.exchange().through_host());
  try_cases(ranks, 60);
}

SLUICE_HD std::uint32_t mixed(std::uint32_t word) {
  return word * 1664525U + 1013904223U;
}

// Makes a rank's next share of the whole that it has gathered: an error stays and spreads.
struct NextShare {
  static constexpr int kThreads = 1;
  const std::uint32_t* whole;
  std::uint32_t* share;
  int rank, columns, all;
  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    team.each([&](int) {
      const int next = rank * columns + team.index + 1;
      share[team.index] = mixed(whole[next < all ? next : 0]);
    });
  }
};

class Chain {
 public:
  Chain(Ranks& ranks, int columns) : ranks_(ranks), columns_(columns), all_(columns * ranks.count()) {
    for (int i = 0; i < all_; ++i) words_.push_back(mixed(static_cast<std::uint32_t>(i)));
    for (int r = 0; r < ranks.count(); ++r) {
      memory_.push_back(ranks.device(r).map(sizeof(float) * static_cast<std::size_t>(columns + all_), "a test").value());
      const auto* own = reinterpret_cast<const std::byte*>(words_.data() + static_cast<std::ptrdiff_t>(r) * columns);
      ranks.device(r).upload({memory_.back().data(), own, sizeof(float) * static_cast<std::size_t>(columns)});
      ranks.device(r).wait();
    }
  }
  void enqueue(int rank) {
    auto* share = reinterpret_cast<float*>(memory_[static_cast<std::size_t>(rank)].data());
    const Exec exec = ranks_.exec(rank);
    all_gather(exec, {.rows = 1, .from = contiguous_rows(share, columns_), .to = contiguous_rows(share + columns_, all_)});
    auto* words = reinterpret_cast<std::uint32_t*>(share);
    cuda_ops::launch(exec, columns_, NextShare{words + columns_, words, rank, columns_, all_});
  }
  // Returns the whole that a rank gathered last.
  std::vector<std::uint32_t> fetch(int rank) {
    std::vector<std::uint32_t> found(static_cast<std::size_t>(all_));
    ranks_.device(rank).download({reinterpret_cast<std::byte*>(found.data()),
                                  memory_[static_cast<std::size_t>(rank)].data() + sizeof(float) * static_cast<std::size_t>(columns_),
                                  found.size() * sizeof(float)});
    ranks_.device(rank).wait();
    return found;
  }
  std::vector<std::uint32_t> expected(int gathers) const {
    std::vector<std::uint32_t> words = words_, next(words_.size());
    for (int i = 1; i < gathers; ++i) {
      for (std::size_t w = 0; w < words.size(); ++w) next[w] = mixed(words[w + 1 < words.size() ? w + 1 : 0]);
      std::swap(words, next);
    }
    return words;
  }

 private:
  Ranks& ranks_;
  int columns_, all_;
  std::vector<std::uint32_t> words_;
  std::vector<DeviceMemory> memory_;
};

void replay(Ranks& ranks, int columns) {
  constexpr int kOfGraph = 10, kStarts = 100;
  Chain chain(ranks, columns);
  const std::uint32_t seed = test_seed();
  std::vector<std::size_t> graphs(static_cast<std::size_t>(ranks.count()));
  ranks.each([&](int rank) {
    std::minstd_rand random(seed + static_cast<std::uint32_t>(rank));
    const std::size_t before = ranks.device(rank).graph_starts();
    for (int start = 0; start < kStarts; ++start) {
      if (random() % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
      ranks.device(rank).begin_batch();
      for (int i = 0; i < kOfGraph; ++i) chain.enqueue(rank);
      ranks.device(rank).end_batch();
      if (random() % 16 == 0) ranks.device(rank).wait();
    }
    ranks.device(rank).wait();
    graphs[static_cast<std::size_t>(rank)] = ranks.device(rank).graph_starts() - before;
  });
  const std::vector<std::uint32_t> expected = chain.expected(kOfGraph * kStarts);
  for (int r = 0; r < ranks.count(); ++r) {
    EXPECT_TRUE(ranks.device(r).status().ok()) << ranks.device(r).status().message();
    EXPECT_GE(graphs[static_cast<std::size_t>(r)], static_cast<std::size_t>(kStarts - 4)) << "all but the first";
    EXPECT_TRUE(chain.fetch(r) == expected) << "rank " << r << ", " << columns << " columns, SLUICE_TEST_SEED=" << seed;
  }
}

TEST(GpuRanks, GatherInReplayedGraphsHoweverLateTheyCome) {
  Ranks ranks(default_ranks(), gpu_count(), 20s);
  ASSERT_TRUE(ranks.ok());
  for (const int columns : {1, 1024, 16384, 16385, 200'000}) replay(ranks, columns);
}

TEST(GpuRanks, GatherInReplayedGraphsOnOneGpu) {
  Ranks ranks(2, 1, 20s);
  ASSERT_TRUE(ranks.ok());
  for (const int columns : {1024, 100'000}) replay(ranks, columns);
}

TEST(GpuRanks, GatherInReplayedGraphsThroughTheHost) {
  Ranks ranks(default_ranks(), gpu_count(), 20s, true);
  ASSERT_TRUE(ranks.ok());
  for (const int columns : {1024, 100'000}) replay(ranks, columns);
}

TEST(GpuRanks, ARankThatNeverComesIsNamedAtTheLimit) {
  constexpr auto kLimit = 500ms;
  for (const int columns : {1000, 100'000}) {
    Ranks ranks(default_ranks(), gpu_count(), kLimit);
    ASSERT_TRUE(ranks.ok());
    Chain chain(ranks, columns);
    const auto begin = Clock::now();
    ranks.each([&](int rank) {
      if (rank == 1) return;
      for (int i = 0; i < 100; ++i) chain.enqueue(rank);
      ranks.device(rank).wait();
    });
    const double took = seconds_since(begin);
    std::printf("a rank that never comes, limit 0.5 s: 100 gathers ended after %.3f s: %s\n", took,
                ranks.exchange().status().message().c_str());
    EXPECT_GE(took, 0.49);
    EXPECT_LT(took, 1.5);
    EXPECT_EQ(ranks.exchange().status().code(), StatusCode::kInternal);
    EXPECT_EQ(ranks.exchange().status().message().find("rank 1 of"), 0U) << ranks.exchange().status().message();
  }
}

TEST(GpuRanks, EndWhenTheHostSaysThatOneHasFailed) {
  Ranks ranks(default_ranks(), gpu_count(), 20s);
  ASSERT_TRUE(ranks.ok());
  Chain chain(ranks, 1000);
  for (int i = 0; i < 100; ++i) chain.enqueue(0);
  std::this_thread::sleep_for(50ms);
  ranks.exchange().fail(1, "it was planted");
  const auto begin = Clock::now();
  ranks.device(0).wait();
  std::printf("the host ends the group: 100 gathers ended after %.1f ms\n", seconds_since(begin) * 1e3);
  EXPECT_LT(seconds_since(begin), 1.0);
  EXPECT_NE(ranks.exchange().status().message().find("rank 1 of"), std::string::npos);
}

TEST(GpuRanks, SayWhatIsMissing) {
  std::vector<CudaDevice*> one{&gpu()};
  const auto alone = PeerExchange::connect(one, 1s);
  EXPECT_EQ(alone.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(alone.status().message().find("expected 2 to 8"), std::string::npos) << alone.status().message();
}

TEST(GpuRanksFault, AGpuThatFailsEndsTheOthers) {
  Ranks ranks(default_ranks(), gpu_count(), 20s);
  ASSERT_TRUE(ranks.ok());
  Chain chain(ranks, 1000);
  const auto begin = Clock::now();
  ranks.each([&](int rank) {
    for (int i = 0; i < 20; ++i) chain.enqueue(rank);
    if (rank == 1) ranks.device(rank).plant_fault();
    if (rank != 1) {
      for (int i = 0; i < 20; ++i) chain.enqueue(rank);
    }
    ranks.device(rank).wait();
  });
  std::printf("a GPU that fails: all ended after %.3f s: %s\n", seconds_since(begin),
              ranks.exchange().status().message().c_str());
  EXPECT_LT(seconds_since(begin), 1.0);
  for (int r = 0; r < ranks.count(); ++r) EXPECT_EQ(ranks.device(r).status().code(), StatusCode::kInternal);
  EXPECT_NE(ranks.exchange().status().message().find("rank "), std::string::npos);
}

}  // namespace
}  // namespace sluice::gpu_ranks_test
