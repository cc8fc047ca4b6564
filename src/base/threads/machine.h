// The part of the machine that this process may use: cores by affinity, memory by the container's limit if there is
// one.
// Used by base, cli, engine, kernels and src/bench.
#pragma once

#include <cstddef>

namespace sluice {

int usable_cores();           // >= 1; as of the first call, before this thread is pinned
std::size_t usable_memory();  // bytes

}  // namespace sluice
