// Which processors this process may run on, which of them share a core, and which NUMA nodes have memory; and the use
// of both: threads that stay on a core of their own, memory that is spread over the nodes.
//
// Read from /sys/devices/system, or from a folder like it. What cannot be read counts as simple: every processor a
// core, one node. Thread safety: functions of their arguments and the system's state.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

inline constexpr const char* kSystemDevices = "/sys/devices/system";

// "0-3,8,10-11" as numbers, ascending; empty when it is not such a list.
std::vector<int> parse_cpu_list(std::string_view text);

// The processors of the calling thread's affinity mask, which is where taskset and containers' cpusets show.
std::vector<int> usable_cpus();

// `cpus` in the order in which threads should take them: one of each core before the second of any.
struct CpuOrder {
  std::vector<int> cpus;
  int cores = 0;
};
CpuOrder order_cpus(const std::vector<int>& cpus, const std::string& devices = kSystemDevices);

// Where `threads` threads should stay, one each; empty: nowhere, as there are fewer processors, or so many more that a
// choice among them is the scheduler's, who knows what else runs. So only as many threads as processors or as cores
// stay somewhere.
std::vector<int> pinned_cpus(int threads, const CpuOrder& order);

// The NUMA nodes with memory, ascending; one where nothing is known.
std::vector<int> memory_nodes(const std::string& devices = kSystemDevices);

// Spreads pages of [data, data + bytes), page-aligned and not touched yet, over the nodes in turn, so that threads on
// any of them read at the speed of all. Nothing with one node, and where the system does not let it.
void interleave_memory(void* data, std::size_t bytes, const std::vector<int>& nodes);

// The thread's handle is a pthread_t. False when the system refuses.
bool pin_thread(unsigned long thread, int cpu);

}  // namespace sluice
