#include "kernels/cpu/tiles.h"

#include "base/aligned.h"

namespace sluice {

float* thread_scratch(std::size_t floats) {
  thread_local FloatBuffer buffer;
  return buffer.get(floats);
}

}  // namespace sluice
