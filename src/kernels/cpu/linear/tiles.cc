// Used by kernels/cpu, kernels/cpu/attention, kernels/cpu/avx512_amx and kernels/cpu/linear.
#include "kernels/cpu/linear/tiles.h"

#include "base/aligned.h"

namespace sluice {

Exec on_this_thread(const Exec& exec) {
  static ThreadPool none(1);
  Exec inner = exec;
  inner.pool = &none;
  return inner;
}

float* thread_scratch(std::size_t floats) {
  thread_local FloatBuffer buffer;
  return buffer.get(floats);
}

}  // namespace sluice
