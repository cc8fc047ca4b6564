// The part of the CUDA runtime that the device uses, over host memory: what is enqueued is done late, when somebody
// waits, or at random. So the device's staging, marks and errors are tested where there is no GPU.
#pragma once

namespace sluice {

struct FakeCuda {
  int driver = 13000;  // version; 0: there is none
  int gpus = 1;
  int major = 9;        // compute capability
  bool failed = false;  // a kernel has: for good; read and written by who holds the queue
  unsigned seed = 0;    // of when enqueued work is done by itself
};
FakeCuda& fake_cuda();

}  // namespace sluice
