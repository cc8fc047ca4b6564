// Compiled for avx512vbmi and avx512_amx.
// Attention on AMX tiles (AttendArgs::tiles of kernels/ops/attention.h); in the target without AMX they are emulated,
// for tests.
// Used by attend_columns.isa.cc and kernels/cpu/avx512vbmi/column_tiles.h.
#include "kernels/cpu/attention/attend_columns.h"
#include "kernels/cpu/avx512vbmi/column_tiles.h"
#include "kernels/cpu/kernel_list.h"

namespace sluice::cpu::SLUICE_ISA {

void attend_tiles(const AttendArgs& args, int span, int begin, int end, int head_begin, int head_end) {
  attend_columns<F32x16, ColumnTiles>(args, span, begin, end, head_begin, head_end);
}

namespace {

#ifdef __AMX_TILE__
constexpr Kernel kKernels[] = {SLUICE_KERNEL(attend_tiles, attend_tiles, CpuFeature::kAmxBf16)};
#else
constexpr Kernel kKernels[] = {SLUICE_KERNEL(attend_tiles, attend_tiles, CpuFeature::kEmulatedTiles)};
#endif

}  // namespace

SLUICE_KERNELS(attend_tiles, kKernels, {});

}  // namespace sluice::cpu::SLUICE_ISA
