// Compiled for avx2 and avx512.
// Attention (kernels/ops/attention.h) by multiply-adds.
// Used by kernels/cpu/avx512_bf16/bf16_attend.cc.
#include "kernels/cpu/attention/attend_tile.h"
#include "kernels/cpu/kernel_list.h"
#include "kernels/cpu/vec.h"

namespace sluice::cpu::SLUICE_ISA {

void attend(const AttendArgs& args, int span, int begin, int end, int head_begin, int head_end) {
  attend_tiles<F32x16, FloatProducts<F32x16, false>>(args, span, begin, end, head_begin, head_end);
}
void attend_bf16(const AttendArgs& args, int span, int begin, int end, int head_begin, int head_end) {
  attend_tiles<F32x16, FloatProducts<F32x16, true>>(args, span, begin, end, head_begin, head_end);
}

namespace {

constexpr Kernel kKernels[] = {
    SLUICE_KERNEL(attend, attend),
    SLUICE_KERNEL(attend_bf16, attend_bf16),
    SLUICE_KERNEL(attend_bf16_odd, attend_bf16),
};

}  // namespace

SLUICE_KERNELS(attend, kKernels, {});

}  // namespace sluice::cpu::SLUICE_ISA
