// KernelTracer: the times at which kernels run, as CUPTI records them. The library is looked for when it is first
// wanted, so that programs need none of it. There is one tracer for the whole process, as the library has one. Thread
// safety: one thread at a time; the library calls back on threads of its own.
// Used by device.cc.
#pragma once

#include <span>
#include <vector>

#include "kernels/ops/kernel_times.h"
#include "sluice/status.h"

namespace sluice {

class KernelTracer {
 public:
  // Returns the tracer, opened by the first call; kUnavailable says what is missing. `files` are tried in order; by
  // default those where the library usually lies.
  static Result<KernelTracer*> open();
  static Result<KernelTracer*> open(std::span<const char* const> files);

  Status start();
  std::vector<KernelTime> stop();  // the kernels that have ended, in no order

 private:
  struct Library;
  explicit KernelTracer(const Library* library) : library_(library) {}
  const Library* library_;
};

}  // namespace sluice
