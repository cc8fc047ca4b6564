#include "base/threads/shared_cores.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <random>

#include "base/test_seed_testing.h"
#include "base/threads/fake_system_testing.h"

namespace sluice::shared_cores_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

using Pairs = std::vector<CpuPair>;

std::vector<int> first_cpus(int count) {
  std::vector<int> cpus(static_cast<std::size_t>(count));
  std::iota(cpus.begin(), cpus.end(), 0);
  return cpus;
}

// Processors of which some share cores, whose loop takes a quarter of a millisecond alone.
struct FakeMachine {
  std::function<bool(int a, int b)> share = [](int, int) { return false; };
  std::function<double(int cpu)> slowness = [](int) { return 1.0; };
  double disturbed = 0;  // the part of runs that other work on the host makes up to 20 times as long
  std::mt19937 random{1};
  int runs = 0;
  double clock = 0;

  double seconds(int cpu, bool shared) {
    double seconds = 0.00025 * slowness(cpu) * (shared ? 1.9 : 1.05);
    seconds *= std::uniform_real_distribution(0.97, 1.03)(random);
    if (std::uniform_real_distribution(0.0, 1.0)(random) < disturbed) {
      seconds *= std::uniform_real_distribution(1.0, 20.0)(random);
    }
    return seconds;
  }
  TimedCores time() {
    const auto together = [this](std::span<const int> cpus) {
      ++runs;
      const bool shared = cpus.size() == 2 && share(cpus[0], cpus[1]);
      std::vector<double> times;
      for (const int cpu : cpus) times.push_back(seconds(cpu, shared));
      clock += 1.3 * std::ranges::max(times);  // with the threads' start
      return times;
    };
    return {together, [this] { return clock; }};
  }
};

const auto kNeighbours = [](int a, int b) { return (a ^ 1) == b; };
auto halves_of(int count) {
  return [count](int a, int b) { return std::abs(a - b) == count / 2; };
}

Pairs neighbours_of(int count) {
  Pairs pairs;
  for (int cpu = 0; cpu < count; cpu += 2) pairs.emplace_back(cpu, cpu + 1);
  return pairs;
}

std::optional<Pairs> measured(FakeMachine& machine, int count) {
  return measure_sharing(first_cpus(count), {first_cpus(count)}, machine.time());
}

TEST(SharedCores, FindsNeighboursAndHalves) {
  for (const int count : {4, 6, 16, 64, 256}) {
    FakeMachine machine;
    EXPECT_EQ(measured(machine, count), Pairs()) << count << ": each has a core of its own";
    machine.share = kNeighbours;
    EXPECT_EQ(measured(machine, count), neighbours_of(count)) << count;
    machine.share = halves_of(count);
    const std::optional<Pairs> halves = measured(machine, count);
    ASSERT_TRUE(halves.has_value()) << count;
    ASSERT_EQ(halves->size(), static_cast<std::size_t>(count / 2));
    for (const auto& [a, b] : *halves) EXPECT_EQ(b, a + count / 2);
  }
}

TEST(SharedCores, MeasuresFewPairs) {
  for (const int count : {16, 256}) {
    FakeMachine machine;
    machine.share = kNeighbours;
    ASSERT_TRUE(measured(machine, count).has_value());
    EXPECT_LE(machine.runs, 6 * (3 * 16 + 4)) << count;
  }
}

TEST(SharedCores, ProcessorsOfANodeShareWithinIt) {
  // Two nodes of eight; those of one are the even processors.
  std::vector<std::vector<int>> nodes(2);
  for (int cpu = 0; cpu < 16; ++cpu) nodes[static_cast<std::size_t>(cpu % 2)].push_back(cpu);
  FakeMachine machine;
  machine.share = halves_of(16);
  const std::optional<Pairs> pairs = measure_sharing(first_cpus(16), nodes, machine.time());
  ASSERT_TRUE(pairs.has_value());
  EXPECT_THAT(*pairs, ElementsAre(Pair(0, 8), Pair(2, 10), Pair(4, 12), Pair(6, 14), Pair(1, 9), Pair(3, 11),
                                  Pair(5, 13), Pair(7, 15)));
}

TEST(SharedCores, KnowsThoseThatMayBeUsedOnly) {
  FakeMachine machine;
  machine.share = halves_of(16);
  const auto among = [&](const std::vector<int>& cpus) {
    return measure_sharing(cpus, {first_cpus(16)}, machine.time());
  };
  EXPECT_EQ(among({0, 1, 2, 3}), Pairs());
  EXPECT_EQ(among({2, 3, 4, 10}), (Pairs{{2, 10}}));
  machine.runs = 0;
  EXPECT_EQ(among({3}), std::nullopt);
  EXPECT_EQ(among({3, 11}), std::nullopt) << "there is no third for a control";
  EXPECT_EQ(machine.runs, 0);
}

TEST(SharedCores, SlowProcessorsShareNothingForThat) {
  FakeMachine machine;
  machine.slowness = [](int cpu) { return cpu % 5 == 0 ? 2.5 : 1.0; };
  EXPECT_EQ(measured(machine, 16), Pairs());
  machine.share = kNeighbours;
  EXPECT_EQ(measured(machine, 16), neighbours_of(16));
}

// Whatever the host does besides, an answer is right, and if it does not do too much there mostly is one.
TEST(SharedCores, OtherWorkMakesNoWrongAnswer) {
  const std::uint32_t seed = test_seed();
  SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << seed);
  constexpr int kTries = 200;
  for (const double disturbed : {0.05, 0.1, 0.2, 0.5}) {
    for (const bool share : {false, true}) {
      int answers = 0;
      for (int i = 0; i < kTries; ++i) {
        FakeMachine machine{.disturbed = disturbed, .random = std::mt19937(seed + static_cast<unsigned>(i))};
        if (share) machine.share = kNeighbours;
        const std::optional<Pairs> pairs = measured(machine, 16);
        if (!pairs) continue;
        ++answers;
        ASSERT_EQ(*pairs, share ? neighbours_of(16) : Pairs()) << disturbed << ", try " << i;
      }
      EXPECT_GE(answers, disturbed < 0.07 ? kTries * 9 / 10 : disturbed < 0.15 ? kTries * 3 / 4 : 0) << share;
    }
  }
}

TEST(SharedCores, HasNoAnswerWhereItCannotKnow) {
  FakeMachine quota;  // two threads get one processor's time, wherever they are
  quota.share = [](int, int) { return true; };
  EXPECT_EQ(measured(quota, 16), std::nullopt);
  EXPECT_EQ(measure_sharing(first_cpus(4), {first_cpus(16)}, quota.time()), std::nullopt) << "of one pattern";
  FakeMachine moving;  // processors that the host moves from core to core
  moving.share = [&](int, int) { return moving.random() % 2 == 0; };
  for (int i = 0; i < 50; ++i) EXPECT_EQ(measured(moving, 16), std::nullopt);
  FakeMachine mixed;  // half of the pairs only
  mixed.share = [](int a, int b) { return a < 8 && kNeighbours(a, b); };
  EXPECT_EQ(measured(mixed, 16), std::nullopt);
  FakeMachine slow;  // too much other work leaves no time for rounds
  slow.slowness = [](int) { return 100.0; };
  EXPECT_EQ(measured(slow, 16), std::nullopt);
  EXPECT_LT(slow.clock, 0.2);
  const TimedCores refuses{[](std::span<const int>) { return std::vector<double>(); }, [] { return 0.0; }};
  EXPECT_EQ(measure_sharing(first_cpus(8), {first_cpus(8)}, refuses), std::nullopt);
}

TEST(SharedCores, TheOrderFollows) {
  const FakeSystem system;  // as a virtual machine has it: each by itself, two nodes
  for (int cpu = 0; cpu < 8; ++cpu) system.cpu(cpu, fmt::format("{}", cpu));
  system.online_nodes("0-1");
  system.node(0, "0-3");
  system.node(1, "4-7");
  FakeMachine machine;
  machine.share = kNeighbours;
  const CpuOrder order = find_cpu_order(first_cpus(8), system.path(), machine.time());
  EXPECT_EQ(order.cores, 4);
  EXPECT_EQ(order.known_by, CoresKnownBy::kMeasurement);
  EXPECT_THAT(order.cpus, ElementsAre(0, 4, 2, 6, 1, 5, 3, 7));
  EXPECT_EQ(cores_text(order), "8 processors on 4 cores, as measured");
  machine.share = [](int, int) { return true; };
  const CpuOrder unclear = find_cpu_order(first_cpus(8), system.path(), machine.time());
  EXPECT_EQ(unclear.cores, 8);
  EXPECT_EQ(cores_text(unclear), "8 processors; which of them share a core is not clear");
}

TEST(SharedCores, WhatTheSystemSaysIsNotMeasured) {
  const FakeSystem system;
  for (int cpu = 0; cpu < 8; ++cpu) system.cpu(cpu, fmt::format("{},{}", cpu % 4, cpu % 4 + 4));
  FakeMachine machine;
  machine.share = kNeighbours;
  const CpuOrder order = find_cpu_order(first_cpus(8), system.path(), machine.time());
  EXPECT_EQ(order.cores, 4);
  EXPECT_EQ(cores_text(order), "8 processors on 4 cores, as the system says");
  EXPECT_EQ(cores_text(find_cpu_order({2}, system.path(), machine.time())), "1 processor");
  const FakeSystem nothing;
  EXPECT_EQ(cores_text(find_cpu_order({2, 3}, nothing.path(), machine.time())), "2 processors");
  EXPECT_EQ(machine.runs, 0);
}

TEST(SharedCores, TimesThisMachine) {
  const TimedCores machine = timed_cores();
  const std::vector<int> cpus = usable_cpus();
  ASSERT_FALSE(cpus.empty());
  for (std::size_t count = 1; count <= std::min<std::size_t>(cpus.size(), 2); ++count) {
    const std::vector<double> times = machine.together(std::span(cpus).first(count));
    ASSERT_EQ(times.size(), count);
    for (const double time : times) EXPECT_GT(time, 1e-5) << "the loop computes nothing";
  }
  EXPECT_THAT(machine.together(std::array{CPU_SETSIZE - 1}), IsEmpty());
}

}  // namespace
}  // namespace sluice::shared_cores_test
