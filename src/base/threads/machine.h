// What this process may use of the machine: cores by affinity, memory by the container's limit where there is one.
#pragma once

#include <cstddef>

namespace sluice {

int usable_cores();           // >= 1; as of the first call, before this thread is pinned
std::size_t usable_memory();  // bytes

}  // namespace sluice
