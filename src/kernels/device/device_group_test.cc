#include "kernels/device/device_group.h"

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>

#include "base/test_seed_testing.h"
#include "kernels/device/emulated_device.h"
#include "kernels/device/host_exchange.h"
#include "kernels/tests/op_testing.h"

namespace sluice::device_group_test {
namespace {

constexpr int kRanks = 3, kVocab = 96;

class DeviceGroupTest : public ::testing::Test {
 protected:
  DeviceGroupTest() {
    std::vector<std::unique_ptr<Device>> devices;
    for (int rank = 0; rank < kRanks; ++rank) {
      auto device = std::make_unique<EmulatedDevice>(seed_ + static_cast<std::uint32_t>(rank));
      of_rank_.push_back(device.get());
      devices.push_back(std::move(device));
    }
    auto exchange = std::make_unique<HostExchange>(kRanks, std::chrono::seconds(20));
    exchange_ = exchange.get();
    group_ = std::make_unique<DeviceGroup>(std::move(devices), std::move(exchange), &emulated_op_table());
    exec_ = {&pool_, all_tables().back(), &DeviceGroup::ops(), group_.get()};
  }

  DeviceMemory map(std::size_t bytes) { return group_->map(bytes, "a test").value(); }
  template <class T>
  DeviceMemory uploaded(const std::vector<T>& values) {
    DeviceMemory memory = map(values.size() * sizeof(T));
    group_->upload({memory.data(), reinterpret_cast<const std::byte*>(values.data()), memory.size()});
    return memory;
  }
  template <class T>
  static T* in(const DeviceMemory& memory) {
    return reinterpret_cast<T*>(memory.data());
  }
  // Reads the bytes of a rank's memory.
  template <class T>
  std::vector<T> of(int rank, const DeviceMemory& memory) {
    std::vector<T> values(memory.size() / sizeof(T));
    const ByteMove move{reinterpret_cast<std::byte*>(values.data()), memory.data(), memory.size()};
    group_->download_from(rank, {&move, 1});
    group_->wait();
    return values;
  }
  template <class T>
  void expect_on_all(const DeviceMemory& memory, const std::vector<T>& expected) {
    for (int rank = 0; rank < kRanks; ++rank) EXPECT_EQ(of<T>(rank, memory), expected) << "rank " << rank;
  }

  const std::uint32_t seed_ = test_seed();
  std::vector<EmulatedDevice*> of_rank_;
  HostExchange* exchange_ = nullptr;
  ThreadPool pool_{1};
  std::unique_ptr<DeviceGroup> group_;
  Exec exec_;
};

TEST_F(DeviceGroupTest, AddressesArePlacesOfTheRanksMemory) {
  const DeviceMemory a = map(1000), b = map(1000);
  std::byte host{};
  for (const DeviceMemory* memory : {&a, &b}) {
    EXPECT_EQ(group_->of(0, memory->data()), memory->data());
    for (int rank = 1; rank < kRanks; ++rank) {
      EmulatedDevice& device = *of_rank_[static_cast<std::size_t>(rank)];
      std::byte* const there = group_->of(rank, memory->data());
      EXPECT_TRUE(device.holds(there) && device.holds(there + 999));
      EXPECT_FALSE(of_rank_[0]->holds(there));
      EXPECT_EQ(group_->of(rank, memory->data() + 999), there + 999);
      EXPECT_EQ(group_->of(rank, memory->data() + 1000), memory->data() + 1000)
          << "one beyond the end is no place of it";
    }
  }
  EXPECT_EQ(group_->of<std::byte>(1, nullptr), nullptr);
  EXPECT_EQ(group_->of(1, &host), &host);
}

TEST_F(DeviceGroupTest, WhatIsUnmappedIsUnmappedOnEveryRank) {
  std::vector<const std::byte*> places;
  {
    const DeviceMemory memory = map(64);
    for (int rank = 0; rank < kRanks; ++rank) places.push_back(group_->of(rank, memory.data()));
  }
  for (std::size_t rank = 0; rank < kRanks; ++rank) EXPECT_FALSE(of_rank_[rank]->holds(places[rank])) << rank;
}

TEST_F(DeviceGroupTest, MovesAreDoneOnEveryRank) {
  const DeviceMemory a = uploaded<int>({1, 2, 3, 4}), b = map(a.size()), c = map(a.size());
  group_->copy({b.data(), a.data() + 4, 12});
  group_->fill(b.data() + 12, std::byte{1}, 4);
  expect_on_all<int>(a, {1, 2, 3, 4});
  expect_on_all<int>(b, {2, 3, 4, 0x01010101});
  expect_on_all<int>(c, {0, 0, 0, 0});
}

TEST_F(DeviceGroupTest, MembersHaveBytesOfTheirOwnAndTheGroupThoseOfTheFirst) {
  EXPECT_EQ(group_->members(), kRanks);
  const DeviceMemory memory = map(sizeof(int));
  for (int rank = 0; rank < kRanks; ++rank) {
    const int value = 10 + rank;
    const ByteMove move{memory.data(), reinterpret_cast<const std::byte*>(&value), sizeof(value)};
    group_->upload_to(rank, {&move, 1});
  }
  for (int rank = 0; rank < kRanks; ++rank) EXPECT_EQ(of<int>(rank, memory), std::vector<int>{10 + rank});
  int value = 0;
  group_->download({reinterpret_cast<std::byte*>(&value), memory.data(), sizeof(value)});
  group_->wait();
  EXPECT_EQ(value, 10);
}

// The ranks wait for each other within their calls, and rank 0's call may use the group.
TEST_F(DeviceGroupTest, EachCallsForAllRanksAtOnce) {
  SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << seed_);
  const DeviceMemory memory = map(sizeof(int));
  std::atomic<int> wrong = 0;
  for (int turn = 0; turn < 300; ++turn) {
    group_->each([&](int rank) {
      std::vector<int> met;
      exchange_->meet(rank, 1, &rank, [&](std::span<const void* const> shown) {
        for (const void* of : shown) met.push_back(*static_cast<const int*>(of));
      });
      if (met != std::vector<int>{0, 1, 2}) ++wrong;
      if (rank == 0 && turn % 32 == 0) {
        group_->download({reinterpret_cast<std::byte*>(met.data()), memory.data(), sizeof(int)});
        group_->wait_for(group_->mark());
      }
    });
  }
  EXPECT_EQ(wrong, 0);
}

// Ops of ranks gather: ops that one rank enqueues may wait for ops that others enqueue.
TEST_F(DeviceGroupTest, OpsOfRanksMeet) {
  constexpr int kShare = 32;
  const DeviceMemory from = map(kShare * sizeof(float)), to = map(kRanks * kShare * sizeof(float));
  std::vector<float> expected;
  for (int rank = 0; rank < kRanks; ++rank) {
    std::vector<float> share(kShare);
    std::iota(share.begin(), share.end(), static_cast<float>(rank * kShare));
    expected.insert(expected.end(), share.begin(), share.end());
    const ByteMove move{from.data(), reinterpret_cast<const std::byte*>(share.data()), from.size()};
    group_->upload_to(rank, {&move, 1});
  }
  group_->each([&](int rank) {
    all_gather(group_->rank_exec(exec_, rank),
               {.rows = 1,
                .from = contiguous_rows(group_->of(rank, in<float>(from)), kShare),
                .to = contiguous_rows(group_->of(rank, in<float>(to)), kRanks * kShare)});
  });
  expect_on_all(to, expected);
}

TEST_F(DeviceGroupTest, TokensAreDrawnAndTakenByEveryRank) {
  std::vector<float> logits(2 * kVocab, 0.0F);
  logits[5] = 3.0F, logits[7] = 2.0F, logits[kVocab + 9] = 1.0F;
  const std::vector<std::uint32_t> masks{~(1U << 5), ~0U, ~0U};  // all ids but 5
  std::vector<SampleRow> params(3);
  params[0] = {.row = 0, .temperature = 0.0F, .slot = 1};
  params[1] = {.row = 0, .temperature = 0.0F, .mask = 0, .slot = 2};
  params[2] = {.row = 1, .temperature = 1.0F, .top_k = 1, .seed = 3, .top_logprobs = 2, .slot = 0};
  const DeviceMemory l = uploaded(logits), p = uploaded(params), m = uploaded(masks), slots = uploaded<int>({2, -1, 0}),
                     out = map(3 * sizeof(SampledRow)), newest = uploaded<TokenId>({0, 0, 0, 77}),
                     ids = uploaded<TokenId>({1, 2, 3});
  sample(exec_, {.rows = 3,
                 .vocab = kVocab,
                 .logits = in<float>(l),
                 .params = in<SampleRow>(p),
                 .out = in<SampledRow>(out),
                 .newest = in<TokenId>(newest),
                 .masks = in<std::uint32_t>(m)});
  take_ids(exec_, {3, in<std::int32_t>(slots), in<TokenId>(newest), in<TokenId>(ids)});
  expect_on_all<TokenId>(newest, {9, 5, 7, 77});
  expect_on_all<TokenId>(ids, {7, 2, 9});
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto drawn = of<SampledRow>(rank, out);
    EXPECT_EQ(drawn[1].token, 7) << rank;
    EXPECT_EQ(drawn[2].top_count, 2) << rank;
    EXPECT_EQ(drawn[2].top_ids[0], 9) << rank;
  }
}

TEST_F(DeviceGroupTest, RanksHaveTheirOwnDeviceThreadsAndPlace) {
  std::vector<const ThreadPool*> pools;
  for (int rank = 0; rank < kRanks; ++rank) {
    const Exec own = group_->rank_exec(exec_, rank);
    EXPECT_EQ(own.device, of_rank_[static_cast<std::size_t>(rank)]);
    EXPECT_EQ(own.ops, &emulated_op_table());
    EXPECT_EQ(own.kernels, exec_.kernels);
    EXPECT_EQ(own.group.rank, rank);
    EXPECT_EQ(own.group.ranks, kRanks);
    EXPECT_EQ(own.group.exchange, exchange_);
    EXPECT_EQ(std::ranges::count(pools, own.pool), 0);
    pools.push_back(own.pool);
  }
  EXPECT_EQ(pools[0], &pool_);
}

TEST_F(DeviceGroupTest, TheStatusNamesTheRankThatBrokeDown) {
  EXPECT_TRUE(group_->status().ok());
  of_rank_[2]->break_down();
  EXPECT_EQ(group_->status().message(), "rank 2 of 3: the emulated device was told to break down");
  EXPECT_EQ(group_->status().code(), StatusCode::kInternal);
  exchange_->fail(1, "its device is gone");
  EXPECT_EQ(group_->status().message(),
            "rank 2 of 3: the emulated device was told to break down; rank 1 of 3: its device is gone");
}

TEST_F(DeviceGroupTest, TheStatusIsThatOfTheExchange) {
  exchange_->fail(1, "its device is gone");
  EXPECT_EQ(group_->status().message(), "rank 1 of 3: its device is gone");
}

TEST_F(DeviceGroupTest, MemoryThatARankLacksIsAnErrorWithItsName) {
  const auto failed = group_->map(std::size_t{1} << 60, "a test");
  EXPECT_EQ(failed.status().code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(failed.status().message().starts_with("rank 0 of 3: cannot map 1152921504606846976 bytes for a test"))
      << failed.status().message();
}

// A device that does nothing.
class IdleDevice : public Device {
 public:
  const char* name() const override { return "idle"; }
  Result<DeviceMemory> map(std::size_t, std::string_view) override { return DeviceMemory(); }
  void copy_all(std::span<const ByteMove>) override {}
  void upload_all(std::span<const ByteMove>) override {}
  void download_all(std::span<const ByteMove>) override {}
  void fill(std::byte*, std::byte, std::size_t) override {}
  void wait() override {}

 private:
  void unmap(std::byte*, std::size_t) override {}
};

// Its queue does not move until another device was asked whether it failed.
class StuckDevice final : public IdleDevice {
 public:
  explicit StuckDevice(const bool* was_asked) : was_asked_(was_asked) {}
  void wait_watching(Mark, const std::function<void()>& watch) override {
    for (int i = 0; i < 1000 && !*was_asked_; ++i) watch();
  }

 private:
  const bool* was_asked_;
};

// It has failed, which its status says once it was asked.
class FailedDevice final : public IdleDevice {
 public:
  explicit FailedDevice(bool* was_asked) : was_asked_(was_asked) {}
  void note_failure() override { *was_asked_ = true; }
  Status status() const override { return *was_asked_ ? internal_error("it trapped") : Status(); }

 private:
  bool* was_asked_;
};

// Rank 0 may wait for a rank that has failed: the group asks that one, and names it rather than the exchange.
TEST(DeviceGroup, ARankThatFailsIsNamedWhileTheFirstOneWaitsForIt) {
  for (const bool waits_for_mark : {true, false}) {
    bool was_asked = false;
    std::vector<std::unique_ptr<Device>> devices;
    devices.push_back(std::make_unique<StuckDevice>(&was_asked));
    devices.push_back(std::make_unique<FailedDevice>(&was_asked));
    auto exchange = std::make_unique<HostExchange>(2, std::chrono::seconds(20));
    exchange->fail(0, "rank 1 did not come");
    DeviceGroup group(std::move(devices), std::move(exchange), nullptr);
    waits_for_mark ? group.wait_for(group.mark()) : group.wait();
    EXPECT_TRUE(was_asked);
    EXPECT_EQ(group.status().message().find("rank 1 of 2: it trapped"), 0U) << group.status().message();
  }
}

}  // namespace
}  // namespace sluice::device_group_test
