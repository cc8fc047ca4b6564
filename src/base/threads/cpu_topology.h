// Finds the processors that this process may run on, the ones that share a core, and the NUMA nodes with memory. Pins
// threads to a core each, and spreads memory over the nodes.
//
// It reads /sys/devices/system, or a folder like it. If that cannot be read, every processor counts as a core, and all
// memory as one node. Shared cores that it does not list may be measured (base/threads/shared_cores.h). Thread safety:
// the results depend on arguments and the system only.
// Used by base, cli, engine and kernels.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

inline constexpr const char* kSystemDevices = "/sys/devices/system";

// "0-3,8,10-11" as numbers, ascending; empty when it is not such a list.
std::vector<int> parse_cpu_list(std::string_view text);

// The processors of the calling thread's affinity mask, which taskset and cpusets of containers set.
std::vector<int> usable_cpus();

// All processors of each NUMA node of the machine, ascending. If nodes are unknown, there is one node with all
// processors that are online; if those are unknown too, there is none.
std::vector<std::vector<int>> cpus_of_nodes(const std::string& devices = kSystemDevices);

// The source of the knowledge which processors share a core. If the system names none that do, some may share cores all
// the same.
enum class CoresKnownBy { kNobody, kSystem, kMeasurement, kUnclear };  // the last two: base/threads/shared_cores.h

// `cpus` in the order in which threads should use them: one of each core before the second of any, and among these one
// of each node in turn.
struct CpuOrder {
  std::vector<int> cpus;
  int cores = 0, nodes = 0;
  CoresKnownBy known_by = CoresKnownBy::kNobody;
};
using CpuPair = std::pair<int, int>;
// `sharing`: pairs that share a core, if the system names none.
CpuOrder order_cpus(const std::vector<int>& cpus, const std::string& devices = kSystemDevices,
                    std::span<const CpuPair> sharing = {});

// The processors to pin `threads` threads to, one each. Empty (do not pin) unless there are as many threads as
// processors or as cores, or fewer on several nodes, all of which they should read from: otherwise the operating
// system, which knows what else runs, chooses better.
std::vector<int> pinned_cpus(int threads, const CpuOrder& order);

// The NUMA nodes with memory, ascending; one node if nothing is known.
std::vector<int> memory_nodes(const std::string& devices = kSystemDevices);

// Spreads the pages of [data, data + bytes), page-aligned and not touched yet, over the nodes in turn, so that threads
// on any node read at the speed of all. Does nothing if there is one node, or if the system refuses.
void interleave_memory(void* data, std::size_t bytes, const std::vector<int>& nodes);

// The thread's handle is a pthread_t. False when the system refuses.
bool pin_thread(unsigned long thread, int cpu);
// The same to any of `cpus`.
bool pin_thread(unsigned long thread, const std::vector<int>& cpus);

}  // namespace sluice
