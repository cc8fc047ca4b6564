// Used by base, cli, engine and kernels.
#include "base/threads/cpu_topology.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <compare>
#include <fstream>
#include <map>
#include <set>

#include "base/threads/machine.h"

namespace sluice {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Removes a number from the start of `text` and returns it; -1 if there is none.
int take_number(std::string_view& text) {
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return -1;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

bool take(std::string_view& text, char c) {
  if (text.empty() || text.front() != c) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

std::vector<int> parse_cpu_list(std::string_view text) {
  constexpr int kMost = 1 << 16;
  std::set<int> numbers;
  do {
    const int first = take_number(text);
    const int last = take(text, '-') ? take_number(text) : first;
    if (first < 0 || last < first || last >= kMost) return {};
    for (int i = first; i <= last; ++i) numbers.insert(i);
  } while (take(text, ','));
  return text.empty() ? std::vector<int>(numbers.begin(), numbers.end()) : std::vector<int>();
}

std::vector<int> usable_cpus() {
  std::vector<int> cpus;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

std::vector<std::vector<int>> cpus_of_nodes(const std::string& devices) {
  std::vector<std::vector<int>> nodes;
  for (const int node : parse_cpu_list(first_line(devices + "/node/online"))) {
    nodes.push_back(parse_cpu_list(first_line(fmt::format("{}/node/node{}/cpulist", devices, node))));
  }
  if (nodes.empty()) nodes.push_back(parse_cpu_list(first_line(devices + "/cpu/online")));
  std::erase_if(nodes,
                [](const std::vector<int>& cpus) { return cpus.empty(); });  // nodes with memory and no processor
  return nodes;
}

CpuOrder order_cpus(const std::vector<int>& cpus, const std::string& devices, std::span<const CpuPair> sharing) {
  struct Place {
    int of_core = 0, of_node = 0, node = 0, cpu = 0;  // earlier ones of its core, of its node
    auto operator<=>(const Place&) const = default;
  };
  std::map<int, int> nodes;  // the node of each processor; 0 if unknown
  int node_number = 0;
  for (const std::vector<int>& of_node : cpus_of_nodes(devices)) {
    for (const int cpu : of_node) nodes[cpu] = node_number;
    ++node_number;
  }
  CpuOrder order;
  std::vector<Place> places;
  std::map<std::vector<int>, int> of_core;     // for each group that shares a core: processors seen
  std::map<std::pair<int, int>, int> of_node;  // key: (of_core, node); value: processors seen
  for (const int cpu : cpus) {
    std::vector<int> core =
        parse_cpu_list(first_line(fmt::format("{}/cpu/cpu{}/topology/thread_siblings_list", devices, cpu)));
    if (core.size() > 1) {
      order.known_by = CoresKnownBy::kSystem;
    } else {
      core = {cpu};
      for (const auto& [a, b] : sharing) {
        if (a == cpu || b == cpu) core = {a, b};
      }
    }
    const int rank = of_core[core]++, node = nodes[cpu];
    places.push_back({rank, of_node[{rank, node}]++, node, cpu});
  }
  std::ranges::sort(places);
  order.cores = static_cast<int>(of_core.size());
  std::set<int> used;
  for (const Place& place : places) {
    order.cpus.push_back(place.cpu);
    used.insert(place.node);
  }
  order.nodes = static_cast<int>(used.size());
  return order;
}

std::vector<int> pinned_cpus(int threads, const CpuOrder& order) {
  const auto cpus = static_cast<int>(order.cpus.size());
  const bool over_nodes = order.nodes > 1 && threads < order.cores;
  if (threads < 2 || (threads != cpus && threads != order.cores && !over_nodes)) return {};
  return {order.cpus.begin(), order.cpus.begin() + threads};
}

std::vector<int> memory_nodes(const std::string& devices) {
  std::vector<int> nodes = parse_cpu_list(first_line(devices + "/node/has_memory"));
  if (nodes.empty()) nodes = {0};
  return nodes;
}

void interleave_memory(void* data, std::size_t bytes, const std::vector<int>& nodes) {
  if (nodes.size() < 2) return;
  constexpr int kWordBits = 64, kInterleave = 3;  // MPOL_INTERLEAVE of linux/mempolicy.h
  std::vector<unsigned long> mask(static_cast<std::size_t>(nodes.back() / kWordBits + 1));
  for (const int node : nodes) mask[static_cast<std::size_t>(node / kWordBits)] |= 1UL << (node % kWordBits);
  // The kernel reads one bit less than the size that it is given. If it refuses, pages lie where they are first
  // touched.
  ::syscall(SYS_mbind, data, bytes, kInterleave, mask.data(), mask.size() * kWordBits + 1, 0);
}

bool pin_thread(unsigned long thread, int cpu) {
  return pin_thread(thread, std::vector<int>{cpu});
}

bool pin_thread(unsigned long thread, const std::vector<int>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(static_cast<std::size_t>(cpu), &set);
  static_cast<void>(usable_cores());  // kept before pinning hides the others
  return pthread_setaffinity_np(thread, sizeof(set), &set) == 0;
}

}  // namespace sluice
