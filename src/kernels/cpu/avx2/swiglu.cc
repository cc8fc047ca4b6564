#include "kernels/cpu/avx2/linear.h"
#include "kernels/cpu/avx2/vec.h"
#include "kernels/cpu/swiglu.inc.h"

namespace sluice {

void swiglu_avx2(const SwiGluArgs& args, int begin, int end) {
  cpu::swiglu<avx2::F32x16>(args, begin, end);
}

}  // namespace sluice
