// Used by base, cli, engine, kernels and src/bench.
#include "base/threads/machine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace sluice {

int usable_cores() {
  // Read once: a thread that is pinned later sees only one core.
  static const int cores = [] {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
    return std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
  }();
  return cores;
}

std::size_t usable_memory() {
  std::size_t bytes =
      static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGE_SIZE));
  // cgroup v2, then v1; "max" or a missing file leave the number as it is.
  for (const char* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::size_t limit = 0;
    if (std::ifstream file(path); file >> limit) bytes = std::min(bytes, limit);
  }
  return bytes;
}

}  // namespace sluice
