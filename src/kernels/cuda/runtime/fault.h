// A kernel that fails, for tests: from there on the GPU's context is broken, as after any error of a kernel.
// Used by device.cc.
#pragma once

namespace sluice {

void enqueue_trap(void* stream);  // a cudaStream_t

}  // namespace sluice
