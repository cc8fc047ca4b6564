// KernelLaunch: a kernel of launch() (kernels/cuda/launch.h) with its arguments, for the device to enqueue.
#pragma once

#include <cstddef>

namespace sluice {

struct KernelLaunch {
  const void* function = nullptr;    // of (kernel, teams, shared bytes of a team)
  unsigned blocks = 0, threads = 0;  // of the grid; of a block
  unsigned cluster = 1;              // blocks that see each other's shared memory
  std::size_t shared_bytes = 0;      // of a block
  bool waits = false;                // its code waits for the kernels before it
  bool starts_next = false;          // and lets the next one start only then
  const void* kernel = nullptr;      // until enqueuing returns
  std::size_t kernel_bytes = 0;
  int teams = 0, team_shared_bytes = 0;
};

}  // namespace sluice
