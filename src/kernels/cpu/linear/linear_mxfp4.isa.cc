// Compiled for avx2 and avx512.
// MXFP4 weights by multiply-adds.
#include "kernels/cpu/kernel_list.h"
#include "kernels/cpu/linear/linear_isa.h"
#include "kernels/cpu/linear/linear_run.h"

namespace sluice::cpu::SLUICE_ISA {

SLUICE_LINEAR_FORMAT(linear_mxfp4, Mxfp4Weights)

namespace {

constexpr LinearKernel kLinears[] = {
    SLUICE_LINEAR_KERNELS(linear_mxfp4, Mxfp4Weights::kRows, weights_of(WeightFormat::kMxfp4), kFloatInputs),
};

}  // namespace

SLUICE_KERNELS(linear_mxfp4, {}, kLinears);

}  // namespace sluice::cpu::SLUICE_ISA
