#include "kernels/cpu/avx512/intrinsics.h"
#include "kernels/cpu/avx512/linear.h"
#include "kernels/cpu/avx512/vec.h"
#include "kernels/cpu/swiglu.inc.h"

namespace sluice {

void swiglu_avx512(const SwiGluArgs& args, int begin, int end) {
  cpu::swiglu<avx512::F32x16>(args, begin, end);
}

}  // namespace sluice
