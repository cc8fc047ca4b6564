// Compiled for avx2 and avx512.
// Weights of bf16 and MXFP4 in the order of AMX tiles, by multiply-adds.
// Used by linear_slices_fp8.isa.cc.
#include "kernels/cpu/linear/linear_slices.h"

#include "kernels/cpu/kernel_list.h"
#include "kernels/cpu/linear/linear_isa.h"
#include "kernels/cpu/linear/linear_run.h"

namespace sluice::cpu::SLUICE_ISA {
namespace {

using SlicesBf16 = Bf16Weights<F32x16, LinearIsa::kBf16Rows>;

}  // namespace

SLUICE_SLICES_FORMAT(linear_bf16_slices, SlicesBf16)
SLUICE_SLICES_FORMAT(linear_mxfp4_slices, Mxfp4Weights)

namespace {

constexpr LinearKernel kLinears[] = {
    SLUICE_SLICES_KERNELS(linear_bf16_slices, weights_of(WeightFormat::kBf16)),
    SLUICE_SLICES_KERNELS(linear_mxfp4_slices, weights_of(WeightFormat::kMxfp4)),
};

}  // namespace

SLUICE_KERNELS(linear_slices, {}, kLinears);

}  // namespace sluice::cpu::SLUICE_ISA
