#include "kernels/cpu/attend.inc.h"
#include "kernels/cpu/avx512/kernels.h"
#include "kernels/cpu/avx512/linear_kernels.h"
#include "kernels/cpu/avx512/linear_tuning.h"
#include "kernels/cpu/avx512/vec.h"

namespace sluice::avx512 {
namespace {

auto* form_of(const AttendArgs& args) {
  if (!args.bf16) return cpu::attend<F32x16, cpu::FloatProducts<F32x16, false>>;
  static const bool available = has_dot();
  if (available && linear_tuning().dot && args.value_offset % 32 == 0) return attend_dot;
  return cpu::attend<F32x16, cpu::FloatProducts<F32x16, true>>;
}

}  // namespace

void attend(const AttendArgs& args, int span, int begin, int end, int head_begin, int head_end) {
  form_of(args)(args, span, begin, end, head_begin, head_end);
}

}  // namespace sluice::avx512
