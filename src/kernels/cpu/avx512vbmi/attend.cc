#include "kernels/cpu/avx512/kernels.h"
#include "kernels/cpu/avx512/linear_tuning.h"
#include "kernels/cpu/avx512vbmi/kernels.h"

namespace sluice::avx512vbmi {

void attend(const AttendArgs& args, int span, int begin, int end, int head_begin, int head_end) {
  static const bool available = avx512::has_dot();
  const bool dot = args.bf16 && available && avx512::linear_tuning().dot && args.value_offset % 32 == 0;
  (dot ? attend_dot : avx512::attend)(args, span, begin, end, head_begin, head_end);
}

}  // namespace sluice::avx512vbmi
