#include "base/threads/cpu_topology.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <thread>

#include "base/storage/large_bytes.h"
#include "base/threads/fake_system_testing.h"
#include "base/threads/machine.h"
#include "base/threads/thread_pool.h"

namespace sluice::cpu_topology_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(CpuTopology, ParsesLists) {
  EXPECT_THAT(parse_cpu_list("0"), ElementsAre(0));
  EXPECT_THAT(parse_cpu_list("0-3,8,10-11"), ElementsAre(0, 1, 2, 3, 8, 10, 11));
  EXPECT_THAT(parse_cpu_list("2,0"), ElementsAre(0, 2));
  for (const char* wrong : {"", "a", "3-1", "1,", "-1", "1-", "1 ", "0-99999999", "99999999999"}) {
    EXPECT_THAT(parse_cpu_list(wrong), IsEmpty()) << wrong;
  }
}

TEST(CpuTopology, CoresComeBeforeTheirSecondThreads) {
  const FakeSystem system;
  for (int core = 0; core < 4; ++core) {
    for (const int cpu : {core, core + 4}) system.cpu(cpu, fmt::format("{},{}", core, core + 4));
  }
  const CpuOrder all = order_cpus({0, 1, 2, 3, 4, 5, 6, 7}, system.path());
  EXPECT_EQ(all.cores, 4);
  EXPECT_THAT(all.cpus, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(pinned_cpus(8, all), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(pinned_cpus(4, all), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(pinned_cpus(3, all), IsEmpty());  // the scheduler knows better which three
  EXPECT_THAT(pinned_cpus(9, all), IsEmpty());  // more threads than processors
  EXPECT_THAT(pinned_cpus(1, order_cpus({5}, system.path())), IsEmpty());
  // A part of the machine, as taskset gives it.
  const CpuOrder part = order_cpus({0, 4, 5, 6}, system.path());
  EXPECT_EQ(part.cores, 3);
  EXPECT_THAT(part.cpus, ElementsAre(0, 5, 6, 4));
}

// Two sockets of three cores with two threads each.
TEST(CpuTopology, ThreadsTakeTheNodesInTurn) {
  const FakeSystem system;
  std::vector<int> cpus;
  for (int cpu = 0; cpu < 12; ++cpu) {
    system.cpu(cpu, fmt::format("{},{}", cpu % 6, cpu % 6 + 6));
    cpus.push_back(cpu);
  }
  system.online_nodes("0-1");
  system.node(0, "0-2,6-8");
  system.node(1, "3-5,9-11");
  const CpuOrder order = order_cpus(cpus, system.path());
  EXPECT_EQ(order.cores, 6);
  EXPECT_EQ(order.nodes, 2);
  EXPECT_THAT(order.cpus, ElementsAre(0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11));
  EXPECT_THAT(pinned_cpus(12, order), ElementsAre(0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11));
  EXPECT_THAT(pinned_cpus(6, order), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_THAT(pinned_cpus(4, order), ElementsAre(0, 3, 1, 4));  // as many on each
  EXPECT_THAT(pinned_cpus(8, order), IsEmpty());
  // A core's second thread comes after its first, as other machines number them; the second node has single threads
  // only.
  EXPECT_THAT(order_cpus({0, 6, 1, 7, 3, 4}, system.path()).cpus, ElementsAre(0, 3, 1, 4, 6, 7));
  // Processors of one node alone.
  const CpuOrder part = order_cpus({3, 4, 5, 9}, system.path());
  EXPECT_EQ(part.nodes, 1);
  EXPECT_THAT(part.cpus, ElementsAre(3, 4, 5, 9));
  EXPECT_THAT(pinned_cpus(2, part), IsEmpty());
}

TEST(CpuTopology, WhatIsNotKnownIsSimple) {
  const FakeSystem system;
  const CpuOrder order = order_cpus({3, 7}, system.path());
  EXPECT_EQ(order.cores, 2);
  EXPECT_THAT(order.cpus, ElementsAre(3, 7));
  EXPECT_THAT(memory_nodes(system.path()), ElementsAre(0));
  system.nodes("0-1,4");
  EXPECT_THAT(memory_nodes(system.path()), ElementsAre(0, 1, 4));
}

TEST(CpuTopology, KnowsTheProcessorsOfNodes) {
  const FakeSystem system;
  EXPECT_THAT(cpus_of_nodes(system.path()), IsEmpty());
  system.online_cpus("0-2");
  EXPECT_THAT(cpus_of_nodes(system.path()), ElementsAre(ElementsAre(0, 1, 2)));
  system.online_nodes("0,2-3");
  system.node(0, "0-1");
  system.node(2, "");  // a node with memory alone
  system.node(3, "2");
  EXPECT_THAT(cpus_of_nodes(system.path()), ElementsAre(ElementsAre(0, 1), ElementsAre(2)));
}

TEST(CpuTopology, ThreadsOfAPoolStayWhereTheyArePinned) {
  const std::vector<int> cpus = usable_cpus();
  ASSERT_FALSE(cpus.empty());
  ThreadPool pool(3);
  pool.pin({cpus.front(), cpus.back(), cpus.front()});
  std::atomic<int> wrong{0};
  pool.run(1000, [&](int, int thread) {
    if (thread == 0) return;  // the caller's affinity is its own
    cpu_set_t set;
    CPU_ZERO(&set);
    pthread_getaffinity_np(pthread_self(), sizeof(set), &set);
    const int cpu = thread == 1 ? cpus.back() : cpus.front();
    if (CPU_COUNT(&set) != 1 || !CPU_ISSET(static_cast<std::size_t>(cpu), &set)) ++wrong;
  });
  EXPECT_EQ(wrong.load(), 0);
}

TEST(CpuTopology, APinnedThreadSeesEveryCore) {
  const int cores = usable_cores();
  std::thread([&] {
    ASSERT_TRUE(pin_thread(pthread_self(), usable_cpus().front()));
    EXPECT_EQ(usable_cores(), cores);
  }).join();
}

// Nodes that this machine lacks included: it is refused, and the memory works all the same.
TEST(CpuTopology, InterleavedMemoryWorks) {
  for (const std::vector<int>& nodes : {std::vector<int>{0}, {0, 1}, {0, 70}}) {
    LargeBytes bytes(3 * kHugePage);
    interleave_memory(bytes.data(), bytes.size(), nodes);
    for (std::size_t i = 0; i < bytes.size(); i += 4096) bytes.data()[i] = std::byte{7};
    EXPECT_EQ(bytes.data()[4096], std::byte{7});
    EXPECT_EQ(bytes.data()[4097], std::byte{0});
  }
}

TEST(LargeBytes, BeginsAtAHugePage) {
  for (const std::size_t size : {std::size_t{1}, kHugePage, 5 * kHugePage + 17}) {
    LargeBytes bytes(size);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(bytes.data()) % kHugePage, 0U);
    bytes.data()[size - 1] = std::byte{1};
    LargeBytes moved(std::move(bytes));
    EXPECT_EQ(moved.data()[size - 1], std::byte{1});
    EXPECT_EQ(moved.size(), size);
  }
}

}  // namespace
}  // namespace sluice::cpu_topology_test
