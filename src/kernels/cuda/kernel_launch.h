// KernelLaunch: a kernel of launch() (kernels/cuda/launch.h) with its arguments, for the device to enqueue.
// Used by device.h, kernels/cuda/runtime/launch_graphs.h and launch.h.
#pragma once

#include <cstddef>

namespace sluice {

struct KernelLaunch {
  const void* function = nullptr;    // the CUDA function; its arguments: kernel, teams, shared bytes of a team
  unsigned blocks = 0, threads = 0;  // blocks of the grid, threads of a block
  unsigned cluster = 1;              // consecutive blocks that see each other's shared memory
  std::size_t shared_bytes = 0;      // shared memory of a block
  bool waits = false;                // it calls wait_for_kernels() itself
  bool starts_next = false;          // it lets the next kernel start itself, after that wait
  const void* kernel = nullptr;      // valid until enqueuing returns
  std::size_t kernel_bytes = 0;
  int teams = 0, team_shared_bytes = 0;
};

}  // namespace sluice
