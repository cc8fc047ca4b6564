// The part of the CUDA runtime that the device uses, over host memory: enqueued work is done late, when a call waits
// for it, or at random. So the device's staging, marks and errors are tested where there is no GPU.
#pragma once

#include <cstddef>

namespace sluice {

// The grid and the memory with which a kernel was started.
struct FakeLaunch {
  unsigned blocks = 0, threads = 0, shared_bytes = 0;
  int teams = 0, team_shared_bytes = 0;
};
// A function that a test enqueues as a kernel; it is called with a copy of its arguments.
struct FakeKernel {
  void (*run)(const void* kernel, const FakeLaunch& launch);
  std::size_t bytes;  // the bytes of its first argument
};

struct FakeCuda {
  int driver = 13000;  // the driver's version; 0: there is none
  int gpus = 1;
  int major = 9;        // compute capability
  bool failed = false;  // a kernel has failed, for good; the holder of the queue reads and writes it
  unsigned seed = 0;    // the seed that decides when enqueued work is done by itself
  bool has_graphs = true;
  int launches = 0, graph_launches = 0, graphs_made = 0, nodes_changed = 0, graphs_alive = 0;
  int early = 0;  // kernels that might start before the one ahead had ended
};
FakeCuda& fake_cuda();

}  // namespace sluice
