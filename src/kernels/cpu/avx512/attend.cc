#include "kernels/cpu/attend.inc.h"
#include "kernels/cpu/avx512/kernels.h"
#include "kernels/cpu/avx512/vec.h"

namespace sluice::avx512 {

void attend(const AttendArgs& args, int span, int begin, int end, int head_begin, int head_end) {
  const auto form = args.bf16 ? cpu::attend<F32x16, cpu::FloatProducts<F32x16, true>>
                              : cpu::attend<F32x16, cpu::FloatProducts<F32x16, false>>;
  form(args, span, begin, end, head_begin, head_end);
}

}  // namespace sluice::avx512
