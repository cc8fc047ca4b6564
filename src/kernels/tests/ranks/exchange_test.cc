// The exchange of GPUs' ranks (kernels/cuda/exchange_view.h): where its pieces lie, and its kernels compiled for the
// CPU, with a thread for each rank, which is late at random.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <set>
#include <thread>

#include "base/aligned.h"
#include "kernels/cuda/exchange_view.h"
#include "kernels/cuda/op_cases_testing.h"
#include "kernels/device/gather_case_testing.h"

namespace sluice::exchange_test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

class HostRanks final : public CudaExchange {
 public:
  HostRanks(int ranks, int bulk_blocks, std::chrono::nanoseconds limit) : memory_(static_cast<std::size_t>(ranks)) {
    views_.resize(memory_.size());
    counts_.assign(memory_.size() * kExchangeCounts, 0);
    for (std::size_t r = 0; r < memory_.size(); ++r) {
      memory_[r] = AlignedBytes(exchange_bytes(ranks), true);
    }
    for (std::size_t r = 0; r < memory_.size(); ++r) {
      views_[r] = {.ranks = ranks, .rank = static_cast<int>(r), .bulk_blocks = bulk_blocks};
      views_[r].limit_ns = static_cast<std::uint64_t>(limit.count());
      for (std::size_t i = 0; i < memory_.size(); ++i) views_[r].memory[i] = memory_[i].data();
      views_[r].counts = counts_.data() + r * kExchangeCounts;
      views_[r].fault = &fault_;
    }
  }
  int ranks() const override { return static_cast<int>(memory_.size()); }
  Status status() const override { return {}; }
  const ExchangeView& view(int rank) const override { return views_[static_cast<std::size_t>(rank)]; }
  std::uint64_t fault() const { return fault_; }
  Exec exec(int rank) { return {&pool_, &scalar_kernels(), &cuda_emulated_op_table(), nullptr, {rank, ranks(), this}}; }

  // Lets each rank but `missing` gather all cases; returns the memory of each rank afterwards.
  std::vector<std::vector<std::vector<std::uint32_t>>> gather(const std::vector<GatherCase>& cases, int missing = -1) {
    std::vector<std::vector<std::vector<std::uint32_t>>> found(memory_.size());
    std::vector<std::thread> threads;
    for (int r = 0; r < ranks(); ++r) {
      if (r == missing) continue;
      threads.emplace_back([&, r] {
        std::minstd_rand delays(static_cast<unsigned>(r) + 1);
        for (const GatherCase& each : cases) {
          std::vector<std::uint32_t>& memory = found[static_cast<std::size_t>(r)].emplace_back(each.before(r));
          if (delays() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(delays() % 500));
          all_gather(exec(r), each.args(reinterpret_cast<float*>(memory.data())));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return found;
  }

 private:
  ThreadPool pool_{1};
  std::vector<AlignedBytes> memory_;
  std::vector<std::uint32_t> counts_;
  std::vector<ExchangeView> views_;
  std::uint64_t fault_ = 0;
};

TEST(Exchange, PiecesLieBesideEachOther) {
  for (int ranks = 2; ranks <= kMostRanks; ++ranks) {
    std::vector<std::pair<std::size_t, std::size_t>> areas;  // begin, end
    for (int sender = 0; sender < ranks; ++sender) {
      for (int block = 0; block < kBulkBlocks; ++block) {
        areas.emplace_back(flag_at(sender, block), flag_at(sender, block) + sizeof(std::uint32_t));
        for (std::uint32_t piece = 6; piece < 6 + kBuffers; ++piece) {
          const std::size_t bulk = bulk_at(ranks, sender, piece, block), packets = packets_at(sender, piece, block);
          areas.emplace_back(bulk, bulk + piece_bytes(ranks));
          if (block < kPacketBlocks) areas.emplace_back(packets, packets + kBlockPackets * kPacketBytes);
        }
      }
    }
    std::ranges::sort(areas);
    for (std::size_t i = 1; i < areas.size(); ++i) ASSERT_LE(areas[i - 1].second, areas[i].first) << ranks << " ranks";
    EXPECT_LE(areas.back().second, exchange_bytes(ranks));
    EXPECT_LE(exchange_bytes(ranks), std::size_t{64} << 20);
    EXPECT_EQ(bulk_at(ranks, 1, 5, 3), bulk_at(ranks, 1, 7, 3)) << "two buffers in turn";
  }
}

TEST(Exchange, BlocksHaveEachUnitOnce) {
  Random random(921);
  for (int i = 0; i < 2000; ++i) {
    const auto units = static_cast<std::uint32_t>(random.between(1, random.between(0, 1) == 0 ? 9000 : 50'000'000));
    const int most = random.between(1, kBulkBlocks);
    const ShardCut cut = cut_bulk(units, most);
    ASSERT_TRUE(cut.blocks >= 1 && cut.blocks <= most) << units;
    ASSERT_GE(std::uint64_t{cut.of_block} * static_cast<std::uint64_t>(cut.blocks), units);
    ASSERT_LT(std::uint64_t{cut.of_block} * static_cast<std::uint64_t>(cut.blocks - 1), units)
        << "a block with nothing";
  }
}

TEST(Exchange, AFaultSaysWhoGaveUpWaitingForWhom) {
  const ExchangeFault fault = fault_of(fault_word({.rank = 7, .missing = 5, .exchange = 0xFEDCBA98U}));
  EXPECT_EQ(fault.rank, 7);
  EXPECT_EQ(fault.missing, 5);
  EXPECT_EQ(fault.exchange, 0xFEDCBA98U);
  EXPECT_FALSE(fault.of_device);
  EXPECT_TRUE(fault_of(fault_word({.of_device = true})).of_device);
  EXPECT_NE(fault_word({}), 0U);
}

std::vector<GatherCase> random_cases_of(Random& random, int ranks, int count) {
  std::vector<GatherCase> cases;
  for (int i = 0; i < count; ++i) {
    const bool large = random.between(0, 5) == 0;
    const int blocks = random.between(1, large ? 12 : 4);
    const int columns = random.between(0, 1) == 0 ? blocks * kGatheredBlock : random.between(1, 300);
    cases.emplace_back(random, ranks, random.between(large ? 20 : 1, large ? 130 : 12), columns);
  }
  return cases;
}

TEST(Exchange, RanksHaveTheWholeRows) {
  Random random(922);
  for (const int ranks : {2, 3, 8}) {
    HostRanks group(ranks, random.between(1, 3), 30s);
    const std::vector<GatherCase> cases = random_cases_of(random, ranks, ranks == 8 ? 12 : 60);
    const auto found = group.gather(cases);
    ASSERT_EQ(group.fault(), 0U);
    for (std::size_t i = 0; i < cases.size(); ++i) {
      for (int r = 0; r < ranks; ++r) {
        ASSERT_TRUE(found[static_cast<std::size_t>(r)][i] == cases[i].after(r))
            << "case " << i << ", rank " << r << ": " << cases[i].text();
      }
    }
  }
}

TEST(Exchange, ARankThatDoesNotComeEndsAllExchanges) {
  Random random(923);
  for (const int missing : {0, 2}) {
    HostRanks group(3, kBulkBlocks, 100ms);
    const auto begin = Clock::now();
    const std::vector<GatherCase> cases{{random, 3, 2, 40}, {random, 3, 3, 128}, {random, 3, 20, 512}};
    group.gather(cases, missing);
    EXPECT_LT(Clock::now() - begin, 5s) << "each but the first ends at once";
    EXPECT_GE(Clock::now() - begin, 100ms);
    const ExchangeFault fault = fault_of(group.fault());
    EXPECT_EQ(fault.missing, missing);
    EXPECT_NE(fault.rank, missing);
    EXPECT_EQ(fault.exchange, 1U);
  }
}

}  // namespace
}  // namespace sluice::exchange_test
