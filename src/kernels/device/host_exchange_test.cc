#include "kernels/device/host_exchange.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>

#include "base/test_seed_testing.h"

namespace sluice::host_exchange_test {
namespace {

using namespace std::chrono_literals;

// Calls of_rank for each of `ranks`, on threads of their own, until all have returned.
void on_threads(int ranks, const std::function<void(int rank)>& of_rank) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back([&of_rank, rank] { of_rank(rank); });
  for (std::thread& thread : threads) thread.join();
}

std::vector<int> values_of(std::span<const void* const> shown) {
  std::vector<int> values;
  for (const void* value : shown) values.push_back(*static_cast<const int*>(value));
  return values;
}

TEST(HostExchange, ValuesMeetInRankOrderHoweverTheRanksCome) {
  constexpr int kRanks = 4;
  std::vector<int> order{0, 1, 2, 3};
  do {
    HostExchange exchange(kRanks, 60s);
    std::vector<std::vector<int>> taken(kRanks);
    on_threads(kRanks, [&](int rank) {
      std::this_thread::sleep_for(order[static_cast<std::size_t>(rank)] * 1ms);
      const int mine = 10 + rank;
      exchange.meet(rank, 1, &mine, [&](auto shown) { taken[static_cast<std::size_t>(rank)] = values_of(shown); });
    });
    for (const auto& values : taken) EXPECT_EQ(values, (std::vector<int>{10, 11, 12, 13}));
    EXPECT_TRUE(exchange.status().ok());
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(HostExchange, TenThousandExchangesOfLateAndEarlyRanks) {
  constexpr int kRanks = 4, kExchanges = 10'000;
  const std::uint32_t seed = test_seed();
  SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << seed);
  HostExchange exchange(kRanks, 60s);
  std::vector<int> wrong(kRanks);
  on_threads(kRanks, [&](int rank) {
    std::minstd_rand random(seed + static_cast<std::uint32_t>(rank));
    int mine = 0;
    for (int i = 0; i < kExchanges; ++i) {
      if (random() % 512 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
      mine = kRanks * i + rank;  // a rank that goes on too early overwrites values that others still read
      std::vector<int> taken;
      exchange.meet(rank, static_cast<std::uint64_t>(i % 7), &mine, [&](auto shown) {
        if (random() % 512 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
        taken = values_of(shown);
      });
      const int first = kRanks * i;
      if (taken != std::vector<int>{first, first + 1, first + 2, first + 3}) ++wrong[static_cast<std::size_t>(rank)];
    }
  });
  EXPECT_EQ(wrong, std::vector<int>(kRanks, 0));
  EXPECT_TRUE(exchange.status().ok()) << exchange.status().message();
}

TEST(HostExchange, ARankThatNeverComesEndsTheGroupWithinTheLimitAndIsNamed) {
  HostExchange exchange(3, 100ms);
  const auto begin = std::chrono::steady_clock::now();
  int takes = 0;
  on_threads(3, [&](int rank) {
    const auto meet = [&] { exchange.meet(rank, 5, &rank, [&](auto) { takes += rank == 0 ? 1 : 0; }); };
    meet();
    if (rank != 1) meet();
  });
  const auto passed = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(passed, 100ms);
  EXPECT_LT(passed, 2s);
  EXPECT_EQ(takes, 1);
  const std::string message = exchange.status().message();
  EXPECT_EQ(exchange.status().code(), StatusCode::kInternal);
  EXPECT_TRUE(message.starts_with("rank 1 of 3 did not come to exchange 1 within 100 ms (--collective-timeout), rank "))
      << message;
  // The exchange has ended for good: no rank waits, nothing is taken, and the first reason stays.
  exchange.fail(2, "something else");
  exchange.meet(0, 6, &takes, [&](auto) { ++takes; });
  EXPECT_EQ(takes, 1);
  EXPECT_EQ(exchange.status().message(), message);
}

TEST(HostExchange, WhatIsStillTakenStaysAsItWasHoweverLongThatLasts) {
  HostExchange exchange(2, 200ms);
  std::vector<int> taken;
  on_threads(2, [&](int rank) {
    int mine = 10 + rank;
    exchange.meet(rank, 1, &mine, [&](auto shown) {
      if (rank == 1) return;
      std::this_thread::sleep_for(300ms);
      exchange.fail(1, "while others take");
      std::this_thread::sleep_for(20ms);
      taken = values_of(shown);
    });
    mine = 0;
  });
  EXPECT_EQ(taken, (std::vector<int>{10, 11}));
  EXPECT_EQ(exchange.status().message(), "rank 1 of 2: while others take");
}

TEST(HostExchange, AnotherExchangeThanThatOfTheOthersIsAnError) {
  HostExchange exchange(2, 60s);
  std::vector<int> takes(2);
  on_threads(2, [&](int rank) {
    exchange.meet(rank, static_cast<std::uint64_t>(7 + rank), &rank,
                  [&](auto) { ++takes[static_cast<std::size_t>(rank)]; });
  });
  EXPECT_EQ(takes, (std::vector<int>{0, 0}));
  const std::string message = exchange.status().message();
  EXPECT_NE(message.find("came to another exchange than rank"), std::string::npos) << message;
}

TEST(HostExchange, ARankThatFailsEndsTheWaitOfTheOthers) {
  HostExchange exchange(2, 60s);
  bool taken = false;
  const auto begin = std::chrono::steady_clock::now();
  on_threads(2, [&](int rank) {
    if (rank == 0) {
      exchange.meet(0, 1, &rank, [&](auto) { taken = true; });
    } else {
      std::this_thread::sleep_for(20ms);
      exchange.fail(1, "its device is gone");
    }
  });
  EXPECT_FALSE(taken);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 30s);
  EXPECT_EQ(exchange.status().message(), "rank 1 of 2: its device is gone");
}

}  // namespace
}  // namespace sluice::host_exchange_test
