// KernelTracer: when kernels run, as CUPTI records it. The library is looked for when it is first wanted: programs need
// none of it. One for the whole process, as the library has it. Thread safety: one thread at a time; the library calls
// back on threads of its own.
#pragma once

#include <span>
#include <vector>

#include "kernels/ops/kernel_times.h"
#include "sluice/status.h"

namespace sluice {

class KernelTracer {
 public:
  // Opened by the first call; kUnavailable says what is missing. `files`: tried in order; where they usually lie.
  static Result<KernelTracer*> open();
  static Result<KernelTracer*> open(std::span<const char* const> files);

  Status start();
  std::vector<KernelTime> stop();  // of what has ended, in no order

 private:
  struct Library;
  explicit KernelTracer(const Library* library) : library_(library) {}
  const Library* library_;
};

}  // namespace sluice
